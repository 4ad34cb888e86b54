"""DeploymentTargetClaim: asks for a target of a class, which is found, or made on demand."""

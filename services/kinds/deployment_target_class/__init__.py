"""DeploymentTargetClass: who makes targets of this class, and what becomes of them after their claim."""

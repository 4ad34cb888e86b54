"""DeploymentTarget: a namespace of a cluster that one claim can have."""

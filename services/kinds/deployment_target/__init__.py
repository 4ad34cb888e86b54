"""DeploymentTarget: a namespace of a cluster that one claim, and so one environment, can have."""

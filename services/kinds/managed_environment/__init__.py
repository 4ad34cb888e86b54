"""GitOpsDeploymentManagedEnvironment: a cluster, or some namespaces of one, that deployments may go to."""

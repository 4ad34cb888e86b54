"""GitOpsDeploymentRepositoryCredential: how to log in to a private Git repository."""

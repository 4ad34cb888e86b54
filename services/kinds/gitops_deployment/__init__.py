"""GitOpsDeployment: deploy what a Git repository holds at a path."""

"""GitOpsDeploymentSyncRun: deploy once, now, what a manual GitOpsDeployment names."""

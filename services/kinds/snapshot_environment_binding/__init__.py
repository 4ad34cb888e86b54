"""SnapshotEnvironmentBinding: deploys the components of an application, as a snapshot has them, to an environment."""

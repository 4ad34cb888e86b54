"""Loss drills: the commands of the runbooks in docs/operations, typed."""

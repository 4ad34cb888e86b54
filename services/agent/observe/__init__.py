"""What exists on an engine instance, and the observations that report it."""

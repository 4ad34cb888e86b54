"""What an agent does for an engine instance that is not well, when a planner orders it."""

"""``python -m bench.fleet``: placement, the planner's batches, and a drain under load, at the size of a large fleet."""

"""The planner's loop: consume, decode, coalesce, plan each tenant, save, commit."""

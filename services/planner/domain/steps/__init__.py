"""The steps of a plan. Each takes the tenant as planned so far and returns the next; ``plan.py`` has their order."""

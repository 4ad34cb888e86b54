"""The planner's own rows as values, in files named as those of ``database/tables``.

Rows of a kind are in its folder of ``services.kinds``, and what only the fleet's rules need in ``domain/fleet``.
"""

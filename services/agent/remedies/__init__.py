"""Remedies: what an agent does, ordered by a planner, for an engine instance that is ill."""

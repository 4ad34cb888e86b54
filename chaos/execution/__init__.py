"""Carries a plan out against a running stack, and records what the API server acknowledges."""

"""Observes what exists on an engine instance, and reports it."""

"""Syncs that users asked for: starts each once, and reports how far it is."""

"""Writes compiled rows to the workspace: statuses to their resources, and the child objects of these."""

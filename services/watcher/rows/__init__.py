"""Compiled rows to the workspace: statuses to their resources, and child objects of these."""

"""Instances that come and go with their load, and when an instance that was added is ready. Pure."""

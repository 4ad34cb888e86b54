"""Snapshot: the images of an application's components that were tested together."""

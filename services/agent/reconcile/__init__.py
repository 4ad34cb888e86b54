"""Reconciles live objects with desired ones: which are queued, what to call next, and what to report."""

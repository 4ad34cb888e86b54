"""Reconciles live objects with desired ones: which objects are queued, which call is next, and what is reported."""

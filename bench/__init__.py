"""Benchmarks: how long a custom resource takes to become an Application, and what that costs."""

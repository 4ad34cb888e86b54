"""Compares what users have written with what Argo CD has been given, and with what statuses show.

Pure but for ``world`` and ``convergence``; it imports nothing of what decides that in the product.

Where what must be depends on what was, such as while an environment cannot be used, it says what may be.
"""

"""Argo CD: the only package that knows its kinds, names, labels and statuses."""

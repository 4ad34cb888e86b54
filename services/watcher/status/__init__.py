"""Compiled status to custom resources: reads ``gitops.workspace`` and writes what it says."""

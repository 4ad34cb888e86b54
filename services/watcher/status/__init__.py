"""Compiled status to custom resources: reads ``gitops.workspace.<WORKSPACE>`` and writes what it says."""

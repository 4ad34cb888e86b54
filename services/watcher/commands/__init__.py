"""Custom resources to commands: lists and watches them, and sends each change to ``gitops.commands``."""

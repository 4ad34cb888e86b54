"""Custom resources to commands: lists and watches them, and sends every change to ``gitops.commands``."""

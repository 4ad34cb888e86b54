"""The Secrets that environments and repository credentials name."""

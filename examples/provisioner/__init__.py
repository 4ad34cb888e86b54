"""A provisioner of deployment targets: ``python -m examples.provisioner``."""

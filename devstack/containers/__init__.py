"""The images of ``compose/``, built and run where there is neither a Docker engine nor a registry."""

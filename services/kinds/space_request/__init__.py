"""SpaceRequest: asks the toolchain for a namespace. Its controller owns the status."""

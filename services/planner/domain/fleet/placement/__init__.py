"""Where a new tenant goes: by its own order of instances, what these carry, and what operators assign. Pure."""

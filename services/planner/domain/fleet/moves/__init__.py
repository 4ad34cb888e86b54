"""A tenant goes to another instance: the steps of one move, and which tenants move to even the fleet out. Pure."""

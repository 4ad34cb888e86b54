"""A tenant moves to another instance: steps, orders, and which tenants move to even the fleet out. Pure."""

"""A version comes to the fleet ring by ring: steps, gates and orders. Pure."""

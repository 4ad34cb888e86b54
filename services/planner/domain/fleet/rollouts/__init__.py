"""A version comes to the fleet ring by ring: the steps, the gates between them, and orders. Pure."""

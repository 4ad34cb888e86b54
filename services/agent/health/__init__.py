"""How an engine instance is: what is measured of it, what that means, and who is told."""

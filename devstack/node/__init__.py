"""A node on this machine: its network, the network policies that hold there, and what is left of it to be removed."""

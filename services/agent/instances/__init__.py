"""Engine instances: everything that runs for an instance that this agent owns."""

"""Engine instances that a provisioner installs: they come and go with their load, are replaced, get another version."""

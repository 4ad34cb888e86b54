"""What is done by itself for instances that are ill: a ladder of remedies, and the evacuation of one. Pure."""

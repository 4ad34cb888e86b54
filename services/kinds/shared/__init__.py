"""What the folders of the kinds have in common."""

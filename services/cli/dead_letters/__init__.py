"""What consumers have given up."""

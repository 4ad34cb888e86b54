"""Pages of documentation that are derived from the code."""

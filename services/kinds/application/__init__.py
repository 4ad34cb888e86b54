"""Application: what components belong to. The build service owns it; here only counts that it exists."""

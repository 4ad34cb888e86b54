"""The engine clusters and instances, and the tenants that are moved between them."""

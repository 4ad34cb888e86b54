"""What one stack has of its own: a folder, ports, certificates, and an identity for each service."""

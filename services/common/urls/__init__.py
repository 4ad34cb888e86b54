"""The rules for URLs from tenants, for services that decide and services that connect. Pure."""

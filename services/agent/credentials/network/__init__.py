"""Connections to servers that tenants name: checked addresses, small answers, short timeouts."""

"""Connections to servers that tenants name: judged addresses, small answers, little time."""

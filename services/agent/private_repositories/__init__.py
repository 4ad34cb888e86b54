"""Keeps tenants from private repositories to which they have no login of their own.

Argo CD shares its checkout of a repository, and what it knows of its branches, among all Applications with the same
URL: once one tenant's login has fetched it, every other tenant gets the content without a login. The agent writes all
objects of an instance's tenants, so the agent enforces the isolation.
"""

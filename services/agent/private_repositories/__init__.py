"""Keeps tenants from private repositories for which they have no login of their own.

Argo CD shares its checkout of a repository, and what it knows of its branches, among all Applications with the same
URL. Once it has fetched a repository with one tenant's login, every other tenant gets the content without a login. The
agent writes all objects of an instance's tenants, so it can enforce the isolation.
"""

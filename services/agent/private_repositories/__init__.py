"""Keeps tenants from private repositories to which they have no login of their own.

Argo CD shares its checkout of a repository, and what it knows of its branches, among all who name the URL: once one
tenant's login has fetched it, whoever names the same URL is given the content, by commit at once and without any
login. The agent writes everything that the tenants of an instance have there, so it is the fence.
"""

from services.agent.private_repositories.fence import Fence

__all__ = ["Fence"]

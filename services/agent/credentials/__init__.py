"""Turns recipes into Argo CD Secrets: opens what is sealed, checks it against the real server, composes the Secret.

A self-contained part of the agent; only :mod:`composers` is called from outside. Everything that comes out of a
tenant's Secret or from a tenant's server is hostile here: see ``kubeconfig`` (what is refused in a kubeconfig) and
``outbound`` (how a connection is made to an address that somebody else chose).
"""

from services.agent.credentials.composers import Composers
from services.agent.credentials.composition import Access, Composition, CredentialSettings, TargetSilent

__all__ = ["Access", "Composers", "Composition", "CredentialSettings", "TargetSilent"]

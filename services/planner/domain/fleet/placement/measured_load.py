"""How much an instance carries: the work that its engine has with the objects of tenants, and its queue. Pure.

A load is a whole number of tenths of a deployment's object; for Argo CD, of tenths of an Application. The engine says
how much each kind of object counts (``Engine.load_of``). A deployment in the queue counts once more, because its
instance is asked for more comparisons than it makes. Agents report in the queue (``EngineHealth.queue``) only what has
waited for a whole minute, so that the burst after a restart, or after a push to a shared repository, places no tenant
elsewhere.
"""

from __future__ import annotations

from services.planner.engines.interface import DEPLOYMENT_LOAD

WAITING = 10
"""Load of a deployment in the queue, in addition to that of its object."""


def in_applications(load: int) -> float:
    """A load in deployments, as operators see it; for Argo CD, in Applications."""
    return load / DEPLOYMENT_LOAD


def load_of_deployments(deployments: int) -> int:
    """The load of so many deployments. As a capacity is such a number, this is also the load that fills it."""
    return DEPLOYMENT_LOAD * deployments


def measured_load(objects: int, coming: int, queue: int) -> int:
    """The load that an instance carries.

    Args:
        objects: load of those that it holds.
        coming: deployments of tenants that are on their way to it.
        queue: deployments of its own that wait to be compared.
    """
    return objects + load_of_deployments(coming) + WAITING * queue

"""How much an instance carries: the work that its engine has with what it holds for tenants, and what waits. Pure.

A load is a whole number, in tenths of a deployment's object: in tenths of an Application, for Argo CD. How much each
kind of object counts is the engine's to say (``Engine.load_of``). A deployment that waits to be compared is asked for
more comparisons than its instance makes: it counts once more. Only what has waited for a whole minute is told as the
queue (``EngineHealth.queue``), so the burst of a restart or of a push to a shared repository places no tenant
elsewhere.
"""

from __future__ import annotations

from services.planner.engines.interface import DEPLOYMENT_LOAD

WAITING = 10
"""Load of a deployment that waits to be compared, besides that of its object."""


def in_applications(load: int) -> float:
    """A load, which is in tenths, in deployments as operators are shown it: for Argo CD in Applications."""
    return load / DEPLOYMENT_LOAD


def load_of_deployments(deployments: int) -> int:
    """The load of so many deployments' objects. A capacity is such a number: so it is also the load that fills one."""
    return DEPLOYMENT_LOAD * deployments


def measured_load(objects: int, coming: int, queue: int) -> int:
    """The load that an instance carries.

    Args:
        objects: load of those that it holds.
        coming: deployments of tenants that are on their way to it.
        queue: deployments of its own that wait to be compared.
    """
    return objects + load_of_deployments(coming) + WAITING * queue

"""Where tenants and their deployments are, by their Applications. Pure.

A tenant is placed where most of its Applications are. If several instances have as many, any of them will do: each
deployment on another instance has a placement of its own.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID


class Located(NamedTuple):
    """An Application."""

    tenant: UUID
    deployment: UUID
    instance: str


class Claim(NamedTuple):
    """Where a tenant is, according to one row of a compiled object."""

    is_present: bool
    """It is desired there; if it is desired elsewhere, too, this is what counts."""
    tenant: UUID
    instance: str
    deployment: UUID | None
    """The deployment of an Application; None for other objects."""


@dataclass(frozen=True, slots=True)
class Placements:
    """Ids of engine instances, by the ids of whatever is there."""

    tenants: Mapping[UUID, str] = field(default_factory=dict)
    deployments: Mapping[UUID, str] = field(default_factory=dict)
    """Only deployments that are not on their tenant's instance."""


def placements_of(applications: Iterable[Located]) -> Placements:
    """Placements of all tenants that have Applications."""
    found, counted = set(applications), defaultdict[UUID, Counter[str]](Counter)
    for each in found:
        counted[each.tenant][each.instance] += 1
    tenants = {tenant: max(sorted(on), key=on.__getitem__) for tenant, on in counted.items()}
    at_home = {each.deployment for each in found if each.instance == tenants[each.tenant]}
    return Placements(
        tenants, {each.deployment: each.instance for each in sorted(found) if each.deployment not in at_home}
    )


def placements_claimed(claims: Iterable[Claim]) -> Placements:
    """Placements of all tenants that have rows; a tenant without an Application is where any of its objects is."""
    in_order = sorted(claims, key=lambda each: each[:3])
    applications = {each.deployment: each for each in in_order if each.deployment is not None}
    found = placements_of(Located(each.tenant, deployment, each.instance) for deployment, each in applications.items())
    return Placements({**{each.tenant: each.instance for each in in_order}, **found.tenants}, found.deployments)

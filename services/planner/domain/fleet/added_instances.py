"""Decides on the order to add an engine instance. Pure."""

from __future__ import annotations

from datetime import datetime

from services.common.messages import RINGS, AddEngineInstance, InstallationPhase
from services.common.platform_namespaces import is_platform
from services.planner.domain.fleet.cluster_orders import require_active
from services.planner.domain.fleet.fleet import Fleet
from services.planner.domain.fleet.order_validation import (
    joined,
    known_cluster,
    require_label,
    require_one_of,
    require_version,
    shortened,
    untested,
)
from services.planner.domain.fleet.placement.assignment_orders import require_fit
from services.planner.domain.fleet.pools.pools import MOST_CAPACITY
from services.planner.domain.fleet.rows import CLASSES, EngineInstanceRow, Refused

ADDED_AS = {
    "engine_cluster": "--cluster",
    "namespace": "--namespace",
    "engine": "--engine",
    "engine_class": "--class",
    "dedicated_to": "--dedicated-to",
    "ring": "--ring",
    "capacity": "--capacity",
}
"""What an instance was added with, and the option for it: the order and the row have it under the same names."""
INSTALLED_AS = {"wanted_version": "--version", "profile": "--profile"}
"""The same for an instance that provisioners install; the row has no value where the order has an empty one."""
DEDICATED_AS = ("engine_class", "dedicated_to")
"""What of this an order to dedicate it changes."""


def add_instance(added: AddEngineInstance, fleet: Fleet, at: datetime) -> tuple[str, Fleet]:
    """The answer to the order, and the fleet afterwards: the very same if nothing has changed. Raises Refused.

    One that is known as it is ordered is not asked for more: a rule may be newer than it.
    """
    known = fleet.find_instance(added.id)
    if known is not None and not known.is_retired and not _differing(added, known):
        return "it is known", fleet
    _require_valid(added, fleet)
    if known is not None:
        raise Refused(_other_than_known(added, known))
    cluster = known_cluster(added.engine_cluster, fleet)
    require_active(cluster.id, fleet)
    _require_free(added, fleet)
    named = {name: getattr(added, name) for name in ADDED_AS}
    row = EngineInstanceRow(
        id=added.id,
        region=cluster.region,
        state="provisioning",
        created_at=at,
        ordered_at=at,
        wanted_version=added.wanted_version or None,
        profile=added.profile or None,
        **named,
    )
    require_fit(row, fleet)
    first = "it is installed first" if added.wanted_version else "it takes tenants once its agent tells that it works"
    answer = f"{first}: 'gitopsctl engines show {row.id}' shows how far that is"
    risk = untested(added.engine, added.wanted_version, fleet) if added.wanted_version else ""
    return joined(answer, risk), fleet.with_instance(row)


def _differing(added: AddEngineInstance, known: EngineInstanceRow) -> list[str]:
    """Names of what an instance was added with otherwise."""
    return [name for name in (*ADDED_AS, *INSTALLED_AS) if (getattr(known, name) or "") != getattr(added, name)]


def _other_than_known(added: AddEngineInstance, known: EngineInstanceRow) -> str:
    """Why an instance is not added under an id that is given out; of what differs the first."""
    if known.is_retired:
        return f"engine instance {known.id} is retired, and its id is not given out again: give another"
    name, *_ = _differing(added, known)
    before, wanted = (
        f"'{shortened(str(value))}'" if value else "none" for value in (getattr(known, name), getattr(added, name))
    )
    option = {**ADDED_AS, **INSTALLED_AS}[name]
    return f"{option} of engine instance {known.id} is {before}, not {wanted}{_advice(name, known)}"


def _advice(name: str, known: EngineInstanceRow) -> str:
    """What to do if an instance was added with another value of ``name``."""
    if name in DEDICATED_AS:
        return f": 'gitopsctl engines dedicate {known.id}' changes that"
    return f", for good: add another one, and 'gitopsctl engines drain {known.id}' if that takes its place"


def _require_valid(added: AddEngineInstance, fleet: Fleet) -> None:
    require_label("an engine instance's id", added.id)
    require_label("a namespace", added.namespace)
    require_one_of("engine", added.engine, fleet.engines)
    require_one_of("class", added.engine_class, CLASSES)
    require_one_of("ring", added.ring, RINGS)
    if added.engine_class == "dedicated" and not added.dedicated_to:
        raise Refused("an engine instance of class dedicated needs a workspace: give it as --dedicated-to")
    if added.engine_class == "shared" and added.dedicated_to:
        raise Refused(
            "an engine instance of class shared is dedicated to no workspace: give '--class dedicated' with "
            f"'--dedicated-to {shortened(added.dedicated_to)}', or neither"
        )
    if not 1 <= added.capacity <= MOST_CAPACITY:
        raise Refused(f"a capacity is between 1 and {MOST_CAPACITY} Applications, not {added.capacity}")
    _require_installable(added, fleet)


def _require_installable(added: AddEngineInstance, fleet: Fleet) -> None:
    if added.profile and not added.wanted_version:
        raise Refused("a profile is of an instance that is installed with a version: add '--version'")
    if added.wanted_version:
        require_version(added.engine, added.wanted_version, fleet)
    if added.profile:
        require_label("a profile", added.profile)


def _require_free(added: AddEngineInstance, fleet: Fleet) -> None:
    """Nobody else has its namespace, and no provisioner is still to delete it.

    In the platform's own namespaces, and in a tenant's, others read the Secrets of all tenants of the instance; and a
    tenant deploys nothing to a namespace that is an engine's. Two instances would undo what each other does there. A
    provisioner deletes the namespace of a retired instance as soon as no tenant has anything in it, whoever was given
    it meanwhile.
    """
    place = (added.engine_cluster, added.namespace)
    where = f"namespace {added.namespace} of engine cluster {added.engine_cluster}"
    if is_platform(added.namespace):
        raise Refused(f"{where} is the platform's: give another --namespace")
    for workspace, clusters in sorted(fleet.local_workspaces.items()):
        if added.engine_cluster in clusters and (workspace, added.namespace) in fleet.tenants:
            raise Refused(f"{where} is tenant {workspace}/{added.namespace}'s: give another --namespace")
    for other in fleet.instances.values():
        if (other.engine_cluster, other.namespace) != place:
            continue
        if not other.is_retired:
            raise Refused(f"{where} is engine instance {other.id}'s: give another --namespace")
        if not _is_removed(other, fleet):
            raise Refused(
                f"{where} was engine instance {other.id}'s, which is retired, and its provisioner is still to delete "
                f"the namespace: wait until 'gitopsctl engines show {other.id}' shows that its installation is "
                f"{InstallationPhase.REMOVED.value}, or give another --namespace"
            )


def _is_removed(retired: EngineInstanceRow, fleet: Fleet) -> bool:
    """Whether no provisioner deletes its namespace any more: none has made it, or one has reported that it is gone.

    Reports of installations are stored for ever. If there is none, as after the database was rebuilt, a provisioner
    reports when it starts.
    """
    installation = fleet.installations.get(retired.id)
    return retired.wanted_version is None or (
        installation is not None and installation.phase == InstallationPhase.REMOVED.value
    )

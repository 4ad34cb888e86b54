"""Makes an installation as it should be in its namespace, and removes it.

Level-based: each call compares what exists and changes what differs, so it may be interrupted anywhere. What somebody
else has made is left alone: a namespace is ours by its label, and so is each object in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import structlog

from services.agent.health.heartbeat import NAME as HEARTBEAT
from services.agent.provisioning.installation import (
    CLUSTER_ROLE_BINDING,
    INSTANCE_LABEL,
    NAMESPACED,
    WORKLOADS,
    Rendering,
    Renderings,
    described,
    differs,
    installation,
    is_rolled_out,
    namespace_of,
    rendering,
)
from services.agent.provisioning.records import FIELD_MANAGER, Records
from services.agent.provisioning.waves import UNRECORDED, Record
from services.common.argocd_names import SECRET_TYPE_LABEL
from services.common.errors import Permanent, Wait
from services.common.kubernetes import (
    APP_PROJECT,
    APPLICATION,
    CONFIG_MAP,
    DEPLOYMENT,
    NAMESPACE,
    SECRET,
    STATEFUL_SET,
    AlreadyExists,
    ApiResource,
    KubeClient,
    Manifest,
    NotFound,
)
from services.common.messages import FleetInstance
from services.common.ownership import MANAGED_BY, MANAGER

log = structlog.get_logger(__name__)

OURS = f"{MANAGED_BY}={MANAGER}"
MADE_ANEW = (CONFIG_MAP, DEPLOYMENT, STATEFUL_SET)
"""Kinds that are deleted first when the configuration is applied anew, because a comparison leaves what others have
added. Not rights and network policies, which must never be missing, and not Secrets, which Argo CD completes."""
UNSHOWN = ("apiVersion", "kind", "stringData")


@dataclass(frozen=True, slots=True)
class Installed:
    """The result of a comparison of an installation."""

    changed: int
    """Number of changed objects."""
    is_rolled_out: bool
    """Whether all pods belong to the current workloads. Not known in the comparison that changes these."""


@dataclass(frozen=True, slots=True)
class Changes:
    """What to do about the objects of one kind."""

    missing: Sequence[Manifest]
    """Desired objects that are missing or different."""
    outdated: Sequence[Manifest]
    """Objects that are deleted first, to be created anew."""
    unwanted: Sequence[Manifest]


class Installer:
    """Installs the instances of one engine cluster."""

    def __init__(self, cluster: KubeClient, renderings: Renderings) -> None:
        """``renderings``: those of the release."""
        self._cluster, self._renderings = cluster, renderings
        self.records = Records(cluster)
        """The records of the instances."""

    def rendering_of(self, instance: FleetInstance) -> Rendering:
        """The current rendering for an instance. Raises Permanent if it cannot be installed."""
        return rendering(self._renderings.manifests_of(instance.wanted_version, instance.profile), instance)

    async def install(self, instance: FleetInstance, wanted: Rendering, begun: Record | None = None) -> Installed:
        """Make the installation as it should be.

        1. The namespace. Crash: it is ours by its label, so the next call continues.
        2. The record of what the instance gets, if that has changed. Crash: the next call continues with that.
        3. Its objects; those that are created anew are deleted first. Crash: missing ones are created next time.
        4. Objects of another version that are no longer desired are deleted.

        Raises Permanent if it cannot be installed, and what the client raises.
        """
        await self._ensure_namespace(instance)
        if begun is not None:
            await self.records.write(instance, begun)
        changed, are_rolled_out = 0, True
        for resource, manifests in _by_resource(wanted, instance).items():
            live = await self._live(resource, instance)
            changes = _changes(resource, instance, manifests, live)
            changed += await self._bring_up_to_date(resource, changes)
            if resource.kind in WORKLOADS:
                are_rolled_out &= not changes.missing and all(map(is_rolled_out, live))
        return Installed(changed, are_rolled_out)

    async def found(self, instance: FleetInstance, wanted: Rendering) -> Record | None:
        """What an instance without a record has; None: nothing. Raises what the client raises."""
        as_it_is = replace(instance, reapply_ordered_at=None)
        is_there = is_other = False
        for resource, manifests in _by_resource(wanted, instance).items():
            live = await self._live(resource, instance)
            changes = _changes(resource, as_it_is, manifests, live)
            is_there |= resource is not CLUSTER_ROLE_BINDING and bool(live)
            is_other |= bool(changes.missing or changes.unwanted)
        if not is_there:
            return None
        return UNRECORDED if is_other else Record(wanted.digest, since=None)

    async def remove(self, instance: FleetInstance) -> bool:
        """Remove the installation; returns whether nothing is left. Raises Wait while tenants' objects are left.

        Bindings are removed first: without them, what still runs can do nothing to the cluster.
        """
        namespace = await self._namespace(instance)
        if namespace is None or not _is_ours(namespace, instance):
            await self._remove_bindings(instance)
            return True
        if left := await self._left_of_tenants(instance.namespace):
            raise Wait(f"namespace {instance.namespace} is not removed: it still has {described(left)}")
        await self._remove_bindings(instance)
        if "deletionTimestamp" not in namespace["metadata"]:
            log.info("an installation is removed", instance=instance.id, namespace=instance.namespace)
            await self._cluster.delete_object(NAMESPACE, None, instance.namespace, uid=namespace["metadata"]["uid"])
        return False

    async def _ensure_namespace(self, instance: FleetInstance) -> None:
        live = await self._namespace(instance)
        if live is None:
            try:
                await self._cluster.create_object(NAMESPACE, namespace_of(instance), field_manager=FIELD_MANAGER)
            except AlreadyExists as error:
                raise Wait(f"namespace {instance.namespace} has just been made by somebody") from error
            return
        if not _is_ours(live, instance):
            raise Permanent(_whose(live, instance))
        if "deletionTimestamp" in live["metadata"]:
            raise Wait(f"namespace {instance.namespace} is being deleted")

    async def _bring_up_to_date(self, resource: ApiResource, changes: Changes) -> int:
        for live in changes.outdated:
            await self._delete(resource, live)
        for manifest in changes.missing:
            await self._cluster.apply_object(resource, manifest, field_manager=FIELD_MANAGER)
        for live in changes.unwanted:
            await self._delete(resource, live)
        return len(changes.missing) + len(changes.unwanted)

    async def _live(self, resource: ApiResource, instance: FleetInstance) -> list[Manifest]:
        namespace = None if resource is CLUSTER_ROLE_BINDING else instance.namespace
        found: list[Manifest] = []
        async for page in self._cluster.list_pages(resource, namespace, selector=f"{INSTANCE_LABEL}={instance.id}"):
            found += page.items
        return found

    async def _remove_bindings(self, instance: FleetInstance) -> None:
        for binding in await self._live(CLUSTER_ROLE_BINDING, instance):
            await self._delete(CLUSTER_ROLE_BINDING, binding)

    async def _delete(self, resource: ApiResource, live: Manifest) -> None:
        metadata = live["metadata"]
        try:
            await self._cluster.delete_object(
                resource, metadata.get("namespace"), metadata["name"], uid=metadata["uid"]
            )
        except NotFound:
            return

    async def _namespace(self, instance: FleetInstance) -> Manifest | None:
        try:
            return await self._cluster.get_object(NAMESPACE, None, instance.namespace)
        except NotFound:
            return None

    async def _left_of_tenants(self, namespace: str) -> list[str]:
        """Applications, and what agents have made. No row is about a retired instance."""
        found = [
            f"Application {each['metadata']['name']}"
            async for page in self._cluster.list_pages(APPLICATION, namespace, metadata_only=True)
            for each in page.items
            if each["metadata"]["name"] != HEARTBEAT
        ]
        for resource, selector in ((APP_PROJECT, OURS), (SECRET, SECRET_TYPE_LABEL)):
            async for page in self._cluster.list_pages(resource, namespace, selector=selector, metadata_only=True):
                found += [f"{resource.kind} {each['metadata']['name']}" for each in page.items]
        return found


def _by_resource(wanted: Rendering, instance: FleetInstance) -> dict[ApiResource, list[Manifest]]:
    """The desired objects of each kind, in the order in which they are applied."""
    found: dict[ApiResource, list[Manifest]] = {resource: [] for resource in (*NAMESPACED, CLUSTER_ROLE_BINDING)}
    for each in installation(wanted.manifests, instance):
        found[each.resource].append(each.manifest)
    return found


def _changes(
    resource: ApiResource, instance: FleetInstance, wanted: Iterable[Manifest], live: Sequence[Manifest]
) -> Changes:
    outdated = [each for each in live if resource in MADE_ANEW and _is_outdated(each, instance)]
    there = {each["metadata"]["name"]: each for each in live if each not in outdated}
    ours = {each["metadata"]["name"]: each for each in wanted}
    return Changes(
        missing=[each for name, each in ours.items() if name not in there or differs(_comparable(each), there[name])],
        outdated=outdated,
        unwanted=[each for name, each in there.items() if name not in ours],
    )


def _is_outdated(live: Manifest, instance: FleetInstance) -> bool:
    """Whether it is older than the last order to apply the configuration anew. API servers have times in seconds."""
    ordered = instance.reapply_ordered_at
    made = datetime.fromisoformat(live["metadata"]["creationTimestamp"])
    return ordered is not None and made < ordered.replace(microsecond=0)


def _is_ours(namespace: Manifest, instance: FleetInstance) -> bool:
    return _made_for(namespace) == instance.id


def _made_for(namespace: Manifest) -> str:
    """The instance that a provisioner has made it for; empty if somebody else has made it."""
    return (namespace["metadata"].get("labels") or {}).get(INSTANCE_LABEL) or ""


def _whose(namespace: Manifest, instance: FleetInstance) -> str:
    """The message about a namespace that is not ours, with what to do."""
    other = _made_for(namespace)
    if not other:
        return (
            f"namespace {instance.namespace} is there already and was not made for instance {instance.id}: "
            "delete it, or retire the instance and add one in another namespace"
        )
    return (
        f"namespace {instance.namespace} is there already and was made for instance {other}: if that is retired, wait "
        f"until 'gitopsctl engines show {other}' shows that its installation is Removed; else retire instance "
        f"{instance.id} and add one in another namespace"
    )


def _comparable(manifest: Manifest) -> Manifest:
    """``manifest`` without what a list does not show, or shows differently."""
    return {name: value for name, value in manifest.items() if name not in UNSHOWN}

"""A cluster, a clock and a log in memory."""

from __future__ import annotations

import asyncio
import base64
import copy
import itertools
import json
import math
import re
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from services.agent.credentials.check_result import CheckResult
from services.agent.instances.appliers import Dependencies
from services.agent.instances.instance_controller import InstanceController
from services.agent.objects.engine_state import EngineState
from services.agent.objects.managed_kinds import ManagedKind
from services.agent.observe.observation_sink import Delivered
from services.agent.private_repositories.registry_secret import NAME as PRIVATE_REPOSITORIES
from services.agent.settings import AgentSettings
from services.common.errors import GitOpsError, Permanent
from services.common.kubernetes import (
    AlreadyExists,
    ApiResource,
    Changed,
    Conflict,
    Deleted,
    ListCompleted,
    ListStarted,
    Manifest,
    NotFound,
    Reflection,
    Seen,
)
from services.common.kubernetes.client import Page
from services.common.messages import EngineResource
from services.common.messages.observation import ObservationEvent
from tests.unit.fake_clock import FakeClock

SETTINGS = AgentSettings.model_construct(deletion_deadline_seconds=60, health_interval_seconds=math.inf)
"""Health is tried in tests of its own."""
LABEL = {"app.kubernetes.io/managed-by": "gitops-service"}


@dataclass
class MemoryCluster:
    """As much of an API server as the agent uses."""

    clock: FakeClock
    objects: dict[tuple[str, str], Manifest] = field(default_factory=dict)
    calls: list[tuple[str, str]] = field(default_factory=list)
    failing: GitOpsError | None = None
    """Raised by every call."""
    certificate: bytes = b""
    """That it shows; empty: it is not connected to by TLS."""
    refusing: dict[str, GitOpsError] = field(default_factory=dict)
    """Raised by writes to the object of that name."""
    gates: dict[str, asyncio.Event] = field(default_factory=dict)
    """A write to the object of that name waits for its gate."""

    def __post_init__(self) -> None:
        self._versions = itertools.count(1)
        self._watchers: defaultdict[str, list[Watcher]] = defaultdict(list)
        self.in_flight = self.most_in_flight = 0
        self.listing = asyncio.Event()
        self.listing.set()

    async def get_object(self, resource: ApiResource, namespace: str | None, name: str) -> Manifest:
        if name != PRIVATE_REPOSITORIES:  # read once by whoever takes over
            await self._enter("get", name)
        elif self.failing is not None:
            raise self.failing
        return copy.deepcopy(self._existing(resource, name))

    async def list_pages(self, resource: ApiResource, namespace: str | None, *, selector: str) -> AsyncGenerator[Page]:
        if self.failing is not None:
            raise self.failing
        found = [each for (of, _), each in self.objects.items() if of == resource.kind]
        yield Page([copy.deepcopy(each) for each in found if Watcher(selector).selects(each)], "1")

    async def read_certificate(self) -> bytes:
        if self.failing is not None or not self.certificate:
            raise self.failing or Permanent("no TLS")
        return self.certificate

    async def create_object(self, resource: ApiResource, manifest: Manifest, *, field_manager: str) -> Manifest:
        name = manifest["metadata"]["name"]
        await self._enter("create", name)
        if (resource.kind, name) in self.objects:
            raise AlreadyExists(name)
        created = copy.deepcopy(manifest)
        created["metadata"]["uid"] = f"uid-{next(self._versions)}"
        return self._store(resource, created)

    async def apply_object(self, resource: ApiResource, manifest: Manifest, *, field_manager: str) -> Manifest:
        name = manifest["metadata"]["name"]
        await self._enter("apply", name)
        return self._store(resource, _merged(self._existing(resource, name), manifest))

    async def patch_object(
        self, resource: ApiResource, namespace: str | None, name: str, patch: Any, *, field_manager: str
    ) -> Manifest:
        await self._enter("patch", name)
        if isinstance(patch, list):  # of whole fields
            fields = {each["path"].removeprefix("/"): each["value"] for each in patch}
            return self._store(resource, self._existing(resource, name) | fields)
        known, version = self._existing(resource, name), patch.get("metadata", {}).get("resourceVersion")
        if version is not None and version != known["metadata"]["resourceVersion"]:
            raise Conflict(name)
        return self._store(resource, _merged(known, patch))

    async def delete_object(
        self,
        resource: ApiResource,
        namespace: str | None,
        name: str,
        *,
        propagation: str = "",
        uid: str | None = None,
        version: int | None = None,
    ) -> None:
        await self._enter("delete", name)
        known = copy.deepcopy(self._existing(resource, name))
        if version is not None and str(version) != known["metadata"]["resourceVersion"]:
            raise Conflict(name)
        known["metadata"].setdefault("deletionTimestamp", self.clock.now().isoformat())
        self._store(resource, known)

    async def follow(self, kind: ManagedKind, namespace: str) -> AsyncGenerator[Reflection]:
        resource = kind.resource
        await self.listing.wait()
        watcher = Watcher(kind.selector)
        self._watchers[resource.kind].append(watcher)
        self._list(resource.kind, watcher)
        while True:
            yield await watcher.events.get()

    # What others do to the cluster

    def edit(self, kind: str, name: str, change: Manifest) -> None:
        """Somebody merges a patch."""
        self._put(kind, name, _merged(self.objects[kind, name], change))

    def put(self, kind: str, name: str, manifest: Manifest) -> None:
        """Somebody makes it."""
        identity = {"name": name, "namespace": "argocd", "uid": f"uid-{next(self._versions)}"}
        made = manifest | {"kind": kind, "metadata": manifest.get("metadata", {}) | identity}
        self._put(kind, name, made)

    def remove(self, kind: str, name: str) -> None:
        """Somebody deletes it, at once."""
        self._tell(kind, self.objects.pop((kind, name)), gone=True)

    def backup(self) -> Backup:
        """All there is, with the version at which that was so."""
        return Backup(copy.deepcopy(self.objects), next(self._versions))

    def restore(self, backup: Backup) -> None:
        """Somebody restores the API server; what watches it does not learn so before it lists again."""
        self.objects, self._versions = copy.deepcopy(backup.objects), itertools.count(backup.version)

    def relist(self) -> None:
        """Whoever watches has lost history, and lists."""
        for kind, watchers in self._watchers.items():
            for watcher in watchers:
                self._list(kind, watcher)

    def names(self, kind: str) -> list[str]:
        return sorted(name for each, name in self.objects if each == kind)

    def writes(self) -> list[tuple[str, str]]:
        return [call for call in self.calls if call[0] != "get"]

    async def _enter(self, verb: str, name: str) -> None:
        self.calls.append((verb, name))
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            await asyncio.sleep(0)
            if verb != "get" and name in self.gates:
                await self.gates[name].wait()
        finally:
            self.in_flight -= 1
        error = self.failing or (self.refusing.get(name) if verb != "get" else None)
        if error is not None:
            raise error

    def _existing(self, resource: ApiResource, name: str) -> Manifest:
        try:
            return self.objects[resource.kind, name]
        except KeyError:
            raise NotFound(name) from None

    def _store(self, resource: ApiResource, manifest: Manifest) -> Manifest:
        return self._put(resource.kind, manifest["metadata"]["name"], manifest)

    def _put(self, kind: str, name: str, manifest: Manifest) -> Manifest:
        meta = manifest["metadata"]
        meta["resourceVersion"] = str(next(self._versions))
        if meta.get("deletionTimestamp") and not meta.get("finalizers"):
            self.objects.pop((kind, name), None)
            self._tell(kind, manifest, gone=True)
        else:
            self.objects[kind, name] = manifest
            self._tell(kind, manifest)
        return copy.deepcopy(manifest)

    def _list(self, kind: str, watcher: Watcher) -> None:
        seen = [each for (of, _), each in self.objects.items() if of == kind and watcher.selects(each)]
        for event in (ListStarted(), *(Seen(copy.deepcopy(each)) for each in seen), ListCompleted(len(seen))):
            watcher.events.put_nowait(event)

    def _tell(self, kind: str, manifest: Manifest, *, gone: bool = False) -> None:
        for watcher in self._watchers[kind]:
            seen = not gone and watcher.selects(manifest)
            copied = copy.deepcopy(manifest)
            watcher.events.put_nowait(Changed(copied) if seen else Deleted(copied))


@dataclass(frozen=True)
class Backup:
    """Of an API server's database."""

    objects: dict[tuple[str, str], Manifest]
    version: int


class Watcher:
    """One watch, of the objects whose labels its selector selects."""

    def __init__(self, selector: str) -> None:
        self.events: asyncio.Queue[Reflection] = asyncio.Queue()
        self._terms = _TERM.findall(selector)

    def selects(self, manifest: Manifest) -> bool:
        labels = manifest["metadata"].get("labels", {})
        return all(labels.get(name) in ([value] if value else values.split(",")) for name, value, values in self._terms)


_TERM = re.compile(r"([^\s,=]+)(?:=([^,]+)| in \(([^)]*)\))")


def _merged(before: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    result = copy.deepcopy(before) if isinstance(before, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = _merged(result.get(name), value)
    return result


@dataclass
class MemoryReports:
    """Observations in memory; held back while ``behind``."""

    sent: list[tuple[str, ObservationEvent]] = field(default_factory=list)
    told: list[tuple[str, ObservationEvent]] = field(default_factory=list)
    """Of instances themselves."""
    behind: bool = False
    _held: list[Delivered] = field(default_factory=list)

    def send_observation(self, row: EngineResource, event: ObservationEvent, delivered: Delivered) -> None:
        self.sent.append((row.name, event))
        if self.behind:
            self._held.append(delivered)
        else:
            asyncio.get_running_loop().call_soon(delivered, True)

    def send_report(self, instance: str, event: ObservationEvent, delivered: Delivered) -> None:
        self.told.append((instance, event))
        asyncio.get_running_loop().call_soon(delivered, True)

    def catch_up(self, arrived: bool = True) -> None:
        self.behind = False
        held, self._held = self._held, []
        for delivered in held:
            delivered(arrived)

    def of(self, name: str) -> list[ObservationEvent]:
        return [event for each, event in self.sent if each == name]


@dataclass
class FakeChecker:
    """Composes what it is told to; held back while a gate of that name is shut."""

    outcomes: dict[str, CheckResult | Exception] = field(default_factory=dict)
    """By the row's name; a good Secret if there is none."""
    removal_errors: dict[str, Exception] = field(default_factory=dict)
    gates: dict[str, asyncio.Event] = field(default_factory=dict)
    composed: list[tuple[str, Manifest | None]] = field(default_factory=list)
    disposed: list[str] = field(default_factory=list)
    without_account: set[str] = field(default_factory=set)
    """Rows for which nothing was made elsewhere."""
    removed_with: list[Manifest | None] = field(default_factory=list)
    """The Secrets that were there at each of these removal_errors."""
    refusals: dict[str, str] = field(default_factory=dict)
    """By the URL of a repository."""
    judged: list[tuple[str, str]] = field(default_factory=list)
    """URLs and the tenants that named them."""
    public: set[str] = field(default_factory=set)
    """URLs of repositories that open to anybody who asks."""
    probed: list[tuple[str, str]] = field(default_factory=list)
    in_flight: int = 0

    async def compose_secret(self, row: EngineResource, live: Manifest | None) -> CheckResult:
        self.composed.append((row.name, live))
        await self._enter(row.name)
        outcome = self.outcomes.get(row.name) or CheckResult(secret_of(row), "Succeeded", "")
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def may_have_account(self, row: EngineResource, annotations: Mapping[str, str]) -> bool:
        return row.name not in self.without_account

    async def remove_account(self, row: EngineResource, live: Manifest | None) -> None:
        self.disposed.append(row.name)
        self.removed_with.append(live)
        await self._enter(row.name)
        if row.name in self.removal_errors:
            raise self.removal_errors[row.name]

    async def refusal_of_repository(self, url: str, tenant: str) -> str:
        self.judged.append((url, tenant))
        await self._enter(url)
        return self.refusals.get(url, "")

    async def is_public_repository(self, url: str, tenant: str) -> bool:
        self.probed.append((url, tenant))
        await asyncio.sleep(0)
        if (gate := self.gates.get(f"public {url}")) is not None:
            await gate.wait()
        return url in self.public

    async def _enter(self, name: str) -> None:
        self.in_flight += 1
        try:
            await asyncio.sleep(0)
            if name in self.gates:
                await self.gates[name].wait()
        finally:
            self.in_flight -= 1


def secret_of(row: EngineResource, **data: str) -> Manifest:
    """What is composed of ``row``: its recipe's uid, unless told otherwise."""
    manifest = json.loads(row.manifest)
    content = data or {"name": row.name, "server": manifest["recipe"]["uid"]}
    encoded = {name: base64.b64encode(value.encode()).decode() for name, value in content.items()}
    identity = {name: manifest[name] for name in ("apiVersion", "kind", "metadata")}
    return identity | {"type": "Opaque", "data": encoded}


@dataclass
class Bench:
    """One instance with everything around it."""

    clock: FakeClock
    cluster: MemoryCluster
    checker: FakeChecker
    reports: MemoryReports
    instance: InstanceController
    defects: list[BaseException]
    engine: EngineState
    """What was found of its Argo CD."""
    inspections: list[float]
    """When all Argo CDs were to be inspected at once."""


def dependencies_of(
    cluster: Any,
    checker: Any,
    reports: Any,
    clock: FakeClock,
    on_defect: Any,
    engine: EngineState,
    *,
    wanted_version: str = "",
    inspect_engines: Callable[[], None] = lambda: None,
) -> Dependencies:
    """What an instance in namespace ``argocd`` is given, which is the only one of its cluster."""
    engines = defaultdict(EngineState, argocd=engine)

    def is_platform(namespace: str) -> bool:
        return SETTINGS.is_platform(namespace) or namespace == "argocd"

    return Dependencies(
        cluster,
        cluster.follow,
        checker,
        reports,
        clock,
        on_defect,
        engines,
        is_platform,
        lambda _: wanted_version,
        lambda _: True,
        inspect_engines,
    )


def bench(
    wanted_version: str = "",
    *,
    is_in_service: bool = True,
    clock: FakeClock | None = None,
    cluster: MemoryCluster | None = None,
    **settings: Any,
) -> Bench:
    clock, engine = clock or FakeClock(), EngineState(is_inspected=True)
    cluster, checker, reports, defects = cluster or MemoryCluster(clock), FakeChecker(), MemoryReports(), []
    inspections: list[float] = []
    dependencies = dependencies_of(
        cluster,
        checker,
        reports,
        clock,
        defects.append,
        engine,
        wanted_version=wanted_version,
        inspect_engines=lambda: inspections.append(clock.time()),
    )
    dependencies = replace(dependencies, is_in_service=lambda _: is_in_service)
    instance = InstanceController("argocd", "argocd", dependencies, SETTINGS.model_copy(update=settings))
    return Bench(clock, cluster, checker, reports, instance, defects, engine, inspections)

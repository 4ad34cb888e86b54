"""Somebody with rights in the engine namespaces, who changes, deletes and makes what agents look after."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from uuid import NAMESPACE_DNS, uuid5

from chaos.api import (
    APPLICATION_PREFIX,
    CLUSTER_PREFIX,
    CREDENTIAL,
    DATABASE_ID,
    DEPLOYMENT,
    ENVIRONMENT,
    MANAGED_BY,
    MANAGER,
    PROJECT_PREFIX,
    REPOSITORY_PREFIX,
    SECRET_TYPE,
)
from chaos.execution.api_calls import ApiCalls
from chaos.execution.surroundings import Surroundings
from chaos.identity import resource_id
from chaos.plan.operations import EngineKind, Forge, Meddle
from chaos.record import Record, key_of
from services.common.kubernetes import APP_PROJECT, APPLICATION, SECRET, Manifest

RESOURCES = {
    "application": APPLICATION,
    "project": APP_PROJECT,
    "cluster-secret": SECRET,
    "repository-secret": SECRET,
}
PREFIXES = {
    "application": APPLICATION_PREFIX,
    "project": PROJECT_PREFIX,
    "cluster-secret": CLUSTER_PREFIX,
    "repository-secret": REPOSITORY_PREFIX,
}
OWNERS = {"cluster-secret": ENVIRONMENT, "repository-secret": CREDENTIAL}
"""Kinds of the resources that Secrets are made for."""
FORGED_DATA = {
    "cluster-secret": {"name": "intruder", "server": "https://127.0.0.1:9"},
    "repository-secret": {"name": "intruder", "url": "https://git.example.com/intruder/config.git"},
}
EDITS: dict[EngineKind, Manifest] = {
    "application": {"spec": {"project": "default", "source": {"path": "an-intruders"}}},
    "project": {"spec": {"destinations": [{"name": "*", "namespace": "*"}], "sourceRepos": ["*"]}},
    "cluster-secret": {"data": {"project": base64.b64encode(b"default").decode()}},
    "repository-secret": {"data": {"project": base64.b64encode(b"default").decode()}},
}
UNLABEL: Manifest = {"metadata": {"labels": {MANAGED_BY: None}}}


class Intruder:
    """One of them."""

    def __init__(
        self, calls: ApiCalls, surroundings: Surroundings, engine_namespaces: Sequence[str], record: Record
    ) -> None:
        self._calls, self._around, self._record = calls, surroundings, record
        self._namespaces = engine_namespaces

    async def meddle(self, wanted: Meddle) -> bool:
        """Whether there was something to meddle with."""
        found = await self._object_of(wanted)
        if found is None:
            return False
        resource, (_, namespace, name) = RESOURCES[wanted.kind], key_of(found)
        match wanted.how:
            case "edit":
                await self._calls.merge(resource, namespace, name, EDITS[wanted.kind])
            case "unlabel":
                await self._calls.merge(resource, namespace, name, UNLABEL)
            case "delete":
                await self._calls.delete(resource, namespace, name)
        return True

    async def forge(self, wanted: Forge) -> None:
        """Make an object, ours by its label or not."""
        manifest = self._forged(wanted)
        stored = await self._calls.create(RESOURCES[wanted.kind], manifest)
        if not wanted.ours:
            self._record.foreign[key_of(stored)] = stored

    async def _object_of(self, wanted: Meddle) -> Manifest | None:
        owner_kind = OWNERS.get(wanted.kind, DEPLOYMENT)
        owner = await self._calls.find(owner_kind, self._around.namespace(wanted.tenant), wanted.name)
        if owner is None:
            return None
        uid = owner["metadata"]["uid"]
        if wanted.kind in OWNERS:
            return await self._find(wanted.kind, f"{PREFIXES[wanted.kind]}{resource_id(uid)}")
        self._record.disturbed.add(uid)
        application = await self._find("application", f"{APPLICATION_PREFIX}{uid}")
        if application is None or wanted.kind == "application":
            return application
        self._record.disturb(self._around.namespace(wanted.tenant))
        return await self._find("project", application["spec"].get("project", ""))

    async def _find(self, kind: EngineKind, name: str) -> Manifest | None:
        for namespace in self._namespaces:
            if found := await self._calls.find(RESOURCES[kind], namespace, name):
                return found
        return None

    def _forged(self, wanted: Forge) -> Manifest:
        """Some that look like an agent's, some that do not."""
        resource = RESOURCES[wanted.kind]
        made_up = str(uuid5(NAMESPACE_DNS, f"{wanted.kind}-{wanted.slot}-{wanted.ours}"))
        labels = {DATABASE_ID: made_up} | ({MANAGED_BY: MANAGER} if wanted.ours else {})
        manifest: Manifest = {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {
                "name": f"{PREFIXES[wanted.kind]}{made_up}",
                "namespace": self._namespaces[wanted.slot % len(self._namespaces)],
                "labels": labels,
            },
        }
        match wanted.kind:
            case "application":
                source = {"repoURL": "https://git.example.com/intruder/config.git", "path": "."}
                destination = {"name": "in-cluster", "namespace": "default"}
                return manifest | {"spec": {"project": "default", "source": source, "destination": destination}}
            case "project":
                return manifest | {"spec": {"sourceRepos": ["*"], "destinations": []}}
            case _:
                manifest["metadata"]["labels"] = labels | {SECRET_TYPE: wanted.kind.removesuffix("-secret")}
                data = FORGED_DATA[wanted.kind]
                return manifest | {
                    "type": "Opaque",
                    "data": {name: base64.b64encode(value.encode()).decode() for name, value in data.items()},
                }

"""What the database holds sealed, by key, and the commands that seal it anew. Called by :mod:`keys`."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

import orjson
from psycopg.rows import class_row

from services.cli.database_connection import connected
from services.common.api_resource import SECRET
from services.common.errors import Permanent
from services.common.json_values import canonical, dict_of, text_of
from services.common.messages import Command, ResourceChanged
from services.common.sealing import (
    OpeningKeys,
    SealingKeys,
    SecretContext,
    Unopenable,
    cluster_of,
    key_id_of,
    key_ids_of,
)
from services.kinds.registry import REGISTRY
from services.kinds.secret.rules import RESEALED, is_awaited

STORED = """
SELECT tenants.workspace, tenants.namespace, stored.source, stored.kind, stored.name, stored.uid,
       stored.resource_version, stored.generation, stored.epoch, stored.deleting, stored.finalizer, stored.spec,
       stored.omitted, stored.refers_to, stored.secret_type, stored.secret_binding, stored.created_at, stored.seen_at,
       stored.metadata, stored.metadata_omitted, stored.status, stored.status_omitted, tenants.namespace_uid,
       tenants.namespace_created_at,
       coalesce(placed.engine_clusters, '') AS engine_clusters
  FROM resources AS stored JOIN tenants ON tenants.id = stored.tenant_id
  LEFT JOIN tenant_clusters AS placed ON placed.tenant_id = stored.tenant_id
 WHERE stored.present AND (stored.secret_binding <> '' OR stored.kind = %s AND stored.omitted = '')
"""
COMPILED = """
SELECT manifest::json #>> '{recipe,secret,sealed}', manifest::json #>> '{recipe,secret,binding}'
  FROM engine_resources
 WHERE manifest::json #>> '{recipe,secret,sealed}' IS NOT NULL
"""
PARKED = """
SELECT message::json #>> '{message,event,spec}'
  FROM parked_events
 WHERE message::json #>> '{message,event,kind}' = %s AND message::json #>> '{message,event,spec_omitted}' = ''
"""
PARKED_BINDINGS = """
SELECT message::json #>> '{message,event,secret_binding}'
  FROM parked_events
 WHERE message::json #>> '{message,event,secret_binding}' <> ''
"""


@dataclass(frozen=True, slots=True)
class SealedRow:
    """A row of ``resources``, and its tenant: a Secret, or a resource with the binding of the Secret that it names."""

    workspace: str
    namespace: str
    source: str
    kind: str
    name: str
    uid: str
    resource_version: str
    generation: int
    epoch: int
    deleting: bool
    finalizer: bool
    spec: str
    omitted: str
    refers_to: str
    secret_type: str
    secret_binding: str
    created_at: int
    seen_at: datetime
    namespace_uid: str
    namespace_created_at: int
    metadata: str
    metadata_omitted: str
    status: str
    status_omitted: str
    engine_clusters: str = ""
    """In which its tenant is, comma separated; empty: a planner has not written it yet."""

    @property
    def is_secret(self) -> bool:
        """Whether it is the Secret itself that is sealed."""
        return self.kind == SECRET.kind

    @property
    def key_ids(self) -> tuple[str, ...]:
        """Ids of the keys that open it."""
        return _key_ids(_sealed(self.spec if self.is_secret else self.secret_binding))

    @property
    def clusters(self) -> frozenset[str]:
        """The engine clusters that its tenant is in."""
        return frozenset(filter(None, self.engine_clusters.split(",")))


@dataclass(slots=True)
class Count:
    """How much is sealed under one key."""

    secrets: int = 0
    bindings: int = 0
    compiled: int = 0
    parked: int = 0
    """Events of parked tenants. Nobody seals them anew: they go when their tenants are planned again."""

    @property
    def total(self) -> int:
        """Of all."""
        return self.secrets + self.bindings + self.compiled + self.parked


def count_by_key(url: str) -> dict[str, Count]:
    """By key id. Raises Retry, InvalidConfiguration."""
    counts: dict[str, Count] = {}
    for row in stored_rows(url):
        for key_id in row.key_ids:
            count = counts.setdefault(key_id, Count())
            if row.is_secret:
                count.secrets += 1
            else:
                count.bindings += 1
    with connected(url) as connection:
        for texts in connection.execute(COMPILED):
            for key_id in {key_id for text in texts if text is not None for key_id in _key_ids(text)}:
                counts.setdefault(key_id, Count()).compiled += 1
        for (text,) in (*connection.execute(PARKED, [SECRET.kind]), *connection.execute(PARKED_BINDINGS)):
            for key_id in _key_ids(_sealed(text)) if not is_awaited(text) else ():
                counts.setdefault(key_id, Count()).parked += 1
    return counts


def count_unbound(url: str) -> int:
    """Compiled objects that do not say what their Secret may be used for. Raises Retry, InvalidConfiguration."""
    with connected(url) as connection:
        return sum(binding is None for _, binding in connection.execute(COMPILED))


def stored_rows(url: str) -> list[SealedRow]:
    """All that has something sealed. Raises Retry, InvalidConfiguration."""
    with connected(url) as connection, connection.cursor(row_factory=class_row(SealedRow)) as cursor:
        rows = cursor.execute(STORED, [SECRET.kind]).fetchall()
    return [row for row in rows if not (row.is_secret and is_awaited(row.spec))]


def rows_to_reseal(rows: Iterable[SealedRow], sealing: SealingKeys, engine_cluster: str) -> list[SealedRow]:
    """Those that are sealed under other keys than a watcher would use now.

    The private keys are of the agents of ``engine_cluster``, if that is not empty: then only of tenants that are there,
    and of those that have left it with what no other private keys may open.
    """
    own = {kid for kid, key in sealing.current().items() if cluster_of(key) == engine_cluster}
    ours = (row for row in rows if not engine_cluster or engine_cluster in row.clusters or own & {*row.key_ids})
    return [row for row in ours if (wanted := sealing.ids_for(row.clusters)) and {*wanted} != {*row.key_ids}]


def all_resealed(
    rows: Iterable[SealedRow], opening: OpeningKeys, sealing: SealingKeys
) -> tuple[list[Command], list[str]]:
    """The changes that the rows came from, sealed under the active key; and why of some there is none."""
    commands: list[Command] = []
    failures: list[str] = []
    for row in rows:
        try:
            commands.append(resealed(row, opening, sealing))
        except Unopenable as error:
            failures.append(f"{row.workspace}/{row.namespace}/{row.name}: {error}")
    return commands, failures


def resealed(row: SealedRow, opening: OpeningKeys, sealing: SealingKeys) -> Command:
    """The change that ``row`` came from, sealed under the active key. Raises Unopenable."""
    kind = REGISTRY[row.kind]
    event = ResourceChanged(
        api_version=kind.resource.api_version,
        kind=row.kind,
        name=row.name,
        uid=row.uid,
        resource_version=row.resource_version,
        generation=row.generation,
        epoch=row.epoch,
        deleting=row.deleting,
        finalizers=(kind.finalizer,) if row.finalizer else (),
        actor="gitopsctl",
        spec=_resealed_secret(row, opening, sealing) if row.is_secret else row.spec,
        spec_omitted=row.omitted,
        created_at=row.created_at,
        secret_type=row.secret_type,
        secret_binding="" if row.is_secret else _resealed_binding(row, opening, sealing),
        metadata=row.metadata,
        metadata_omitted=row.metadata_omitted,
        status=row.status,
        status_omitted=row.status_omitted,
    )
    return Command(
        row.source, row.workspace, row.namespace, row.seen_at, event, row.namespace_uid, row.namespace_created_at
    )


def _resealed_secret(row: SealedRow, opening: OpeningKeys, sealing: SealingKeys) -> str:
    spec = orjson.loads(row.spec)
    context = SecretContext(row.workspace, row.namespace, row.name, spec["type"], row.namespace_uid)
    values = opening.open_secret(spec["sealed"], context)
    data = {key: base64.b64encode(value).decode() for key, value in values.items()}
    sealed = sealing.seal_secret(data, context, row.clusters)
    return orjson.dumps(spec | {"sealed": sealed, "keyId": key_id_of(sealed), RESEALED: True}).decode()


def _resealed_binding(row: SealedRow, opening: OpeningKeys, sealing: SealingKeys) -> str:
    binding = orjson.loads(row.secret_binding)
    context = SecretContext(row.workspace, row.namespace, row.refers_to, row.secret_type, row.namespace_uid)
    sealed = sealing.seal_binding_again(opening.open_binding(binding["sealed"], context), context, row.clusters)
    return canonical(binding | {"sealed": sealed, "key_id": key_id_of(sealed), RESEALED: True})


def _sealed(spec: str) -> str:
    """In the spec of a Secret, or in a binding; empty if it is neither: it crossed a wire."""
    try:
        return text_of(dict_of(orjson.loads(spec)).get("sealed"))
    except orjson.JSONDecodeError:
        return ""


def _key_ids(sealed: str) -> tuple[str, ...]:
    try:
        return key_ids_of(sealed)
    except Permanent:
        return ("unintelligible",)

"""Puts former specs of GitOpsDeployments in force again, by commands such as watchers send. For ``replay at --apply``.

The custom resource stays as it is, and is the truth: a command tells of the version that it has by now, with another
spec. So a change that users make meanwhile is newer, and wins; and so does the next list that shows the resource.

Only of deployments: what an environment or a credential may use its Secret for is sealed by a watcher for that Secret
and that URL, and a run that has run does not run again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

import orjson
from psycopg.rows import class_row

from services.cli.database_connection import connected
from services.cli.replay.desired_state import Documents
from services.cli.sending import send_commands
from services.common.errors import InvalidConfiguration
from services.common.messages import Command, ResourceChanged
from services.common.settings import KafkaSettings
from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT
from services.kinds.shared.api_group import FINALIZER
from services.planner.domain.audit import REISSUE_ACTOR
from services.planner.rows.tenants import TenantName

MOST = 100
"""Specs that are re-issued at once."""

STORED = """
SELECT d.source, d.name, d.uid, d.resource_version, d.generation, d.epoch, d.finalizer, d.metadata,
       t.namespace_uid, t.namespace_created_at
  FROM deployments d JOIN tenants t ON t.id = d.tenant_id
 WHERE d.present AND NOT d.deleting AND t.former_since = 0
   AND (t.workspace, t.namespace) = (%s, %s) AND d.name = ANY(%s)
 ORDER BY d.name
"""

Spec = Mapping[str, Any]


class Chosen(NamedTuple):
    """What of a tenant is put in force again."""

    specs: Mapping[str, Spec]
    """By name of the deployment."""
    gone: tuple[str, ...]
    """Deployments that had one and are there no more."""


@dataclass(frozen=True, slots=True)
class StoredDeployment:
    """A deployment as the planner knows it by now, and its tenant."""

    source: str
    name: str
    uid: str
    resource_version: str
    generation: int
    epoch: int
    finalizer: bool
    metadata: str
    namespace_uid: str
    namespace_created_at: int


def choose(then: Documents, now: Documents) -> Chosen:
    """Specs of deployments that were in force then, and are not now. What has no spec in force then stays as it is."""
    of_deployments = {
        subject: document["specInForce"]
        for subject, document in then.items()
        if subject.kind == GITOPS_DEPLOYMENT.kind and document["specInForce"] is not None
    }
    changed = {
        subject.name: spec
        for subject, spec in of_deployments.items()
        if subject in now and now[subject]["specInForce"] != spec
    }
    return Chosen(changed, tuple(subject.name for subject in of_deployments if subject not in now))


def only_of(names: Collection[str], chosen: Chosen, then: Documents, now: Documents) -> Chosen:
    """Of ``chosen`` what has one of these names. Raises InvalidConfiguration if of one nothing is put in force."""
    existing = {subject.name for subject in (*then, *now) if subject.kind == GITOPS_DEPLOYMENT.kind}
    had_spec = {
        subject.name
        for subject, document in then.items()
        if subject.kind == GITOPS_DEPLOYMENT.kind and document["specInForce"] is not None
    }
    for name in names:
        if name in chosen.specs:
            continue
        if name not in existing:
            reason = "there was none then, and is none now"
        elif name in chosen.gone:
            reason = "it is there no more; only its owner can create it again"
        elif name not in had_spec:
            reason = "no spec of it was in force then"
        else:
            reason = "its spec then is the one that is in force now"
        raise InvalidConfiguration(f"--resource: {GITOPS_DEPLOYMENT.kind}/{name}: {reason}")
    return Chosen({name: chosen.specs[name] for name in dict.fromkeys(names)}, ())


def send_specs(settings: KafkaSettings, url: str, tenant: TenantName, specs: Mapping[str, Spec]) -> None:
    """Have the planner take these specs for those of the tenant's deployments. Raises Retry, Unavailable."""
    with connected(url) as connection, connection.cursor(row_factory=class_row(StoredDeployment)) as cursor:
        rows = cursor.execute(STORED, (*tenant, list(specs))).fetchall()
    send_commands(settings, [reissued(tenant, row, specs[row.name], datetime.now(UTC)) for row in rows])


def reissued(tenant: TenantName, row: StoredDeployment, spec: Spec, now: datetime) -> Command:
    """The command by which the planner takes ``spec`` for the resource, which is otherwise as stored."""
    event = ResourceChanged(
        api_version=GITOPS_DEPLOYMENT.api_version,
        kind=GITOPS_DEPLOYMENT.kind,
        name=row.name,
        uid=row.uid,
        resource_version=row.resource_version,
        generation=row.generation,
        epoch=row.epoch,
        deleting=False,
        finalizers=(FINALIZER,) if row.finalizer else (),
        actor=REISSUE_ACTOR,
        spec=orjson.dumps(spec).decode(),
        metadata=row.metadata,
    )
    return Command(row.source, *tenant, now, event, row.namespace_uid, row.namespace_created_at)

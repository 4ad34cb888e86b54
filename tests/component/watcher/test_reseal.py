"""``gitopsctl keys`` against a real database and a real broker: what was sealed under a former key is sent again."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import orjson
import psycopg
import pytest

from services.common.avro import AvroCodec, SchemaRegistry
from services.common.kafka import COMMANDS, count_partitions
from services.common.messages import Command, ResourceChanged
from services.common.sealing import OpeningKeys, SealingKeys, SecretContext, key_id_of
from services.common.secret_use import SecretUse
from services.kinds.shared.secret_binding import SecretBinding, binding_of
from services.planner.domain.events import Event
from services.planner.pipeline.parking import parked_event
from tests.component.conftest import Database
from tests.component.fleet import add_instance
from tests.component.watcher.rig import CommandReader, KeyFiles, Sent

DATA = {"kubeconfig": "eA=="}
USE = SecretUse("https://api.example.com")
TYPE = "managed-gitops.redhat.com/managed-environment"
TENANT = """
INSERT INTO tenants (id, workspace, namespace, partition, engine_instance_id)
VALUES (%(tenant)s, %(workspace)s, 'team-a', 0, 'one')
"""
SECRET = """
INSERT INTO resources (id, tenant_id, kind, source, name, uid, resource_version, generation, epoch, present, deleting,
                       finalizer, spec, omitted, refers_to, secret_type, target_uid, target_generation, accepted,
                       refusal, created_at, over_quota, held_back_ms, seen_at, trace_id)
VALUES (%(id)s, %(tenant)s, 'Secret', %(workspace)s, 'kube', 'uid-kube', '42', 0, 7, true, false,
        false, %(spec)s, '', '', '', '', 0, '', '', 1000, false, 0, now(), '')
"""
CREDENTIAL = """
INSERT INTO resources (id, tenant_id, kind, source, name, uid, resource_version, generation, epoch, present, deleting,
                       finalizer, spec, omitted, refers_to, secret_type, secret_binding, target_uid, target_generation,
                       accepted, refusal, created_at, over_quota, held_back_ms, seen_at, trace_id)
VALUES (%(bound)s, %(tenant)s, 'GitOpsDeploymentManagedEnvironment', %(workspace)s, 'prod', 'uid-prod', '43', 2, 8,
        true, false, true, '{}', '', 'kube', %(type)s, %(binding)s, '', 0, '', '', 1000, false, 0, now(), '')
"""
COMPILED = """
INSERT INTO engine_resources (engine_instance_id, kind, namespace, name, workspace, tenant_namespace, lane, wave,
                              desired, manifest, digest, trace_id, seen_at, updated_at, engine_cluster)
VALUES ('one', 'ClusterSecret', 'argocd', 'managed-env-1', %(workspace)s, 'team-a', 'lane', 0,
        'present', %(manifest)s, '', '', now(), now(), 'default'),
       ('one', 'ClusterSecret', 'argocd', 'managed-env-2', %(workspace)s, 'team-a', 'lane', 0,
        'absent', '{"recipe": {}}', '', '', now(), now(), 'default')
"""
"""A row with something sealed, and one that is only good to find an object by."""

PARKED = """
INSERT INTO parked_tenants (tenant_id, workspace, namespace, partition, error, parked_at)
VALUES (%(tenant)s, %(workspace)s, 'team-a', 0, '', now());
INSERT INTO parked_events (tenant_id, partition, trace_id, message) VALUES (%(tenant)s, 0, '', %(parked)s)
"""


class Operator:
    """Runs ``gitopsctl keys`` with these files, this database and this broker."""

    def __init__(self, keys: KeyFiles, **environment: str) -> None:
        files = {"SEALING_PRIVATE_KEYS": str(keys.private), "SEALING_PUBLIC_KEYS": str(keys.public)}
        self._environment = os.environ | files | environment

    def keys(self, *arguments: str) -> tuple[int, str]:
        command = [sys.executable, "-m", "services.cli", "keys", *arguments]
        ended = subprocess.run(command, env=self._environment, capture_output=True, text=True, check=False)
        return ended.returncode, ended.stdout + ended.stderr


@pytest.fixture
def operator(keys: KeyFiles, database: Database, kafka_bootstrap: str, registry_url: str) -> Operator:
    return Operator(
        keys,
        DATABASE_OWNER_URL=database.owner_url,
        KAFKA_BOOTSTRAP_SERVERS=kafka_bootstrap,
        SCHEMA_REGISTRY_URL=registry_url,
        COLUMNS="200",
    )


def hold(database: Database, workspace: str, keys: KeyFiles) -> str:
    """Put a Secret and an object compiled from it into the database; returns the sealed text."""
    sealing, context = SealingKeys.load(keys.public), SecretContext(workspace, "team-a", "kube", TYPE)
    sealed, binding = sealing.seal_secret(DATA, context), sealing.seal_binding(DATA, USE, context)
    values: dict[str, Any] = {
        "workspace": workspace,
        "tenant": uuid.uuid4(),
        "id": uuid.uuid4(),
        "bound": uuid.uuid4(),
        "type": TYPE,
        "binding": SecretBinding("uid-kube", "42", USE.digest, key_id_of(binding), binding).text,
        "spec": orjson.dumps({"type": TYPE, "sealed": sealed, "keyId": key_id_of(sealed)}).decode(),
        "manifest": orjson.dumps({"recipe": {"secret": {"sealed": sealed}}}).decode(),
    }
    event = ResourceChanged("v1", "Secret", "kube", "uid-kube", "43", 0, 7, False, (), "", values["spec"])
    parked = Event(Command(workspace, workspace, "team-a", datetime.now(UTC), event), 0, "")
    values["parked"] = parked_event(values["tenant"], parked).message
    with psycopg.connect(database.owner_url) as connection:
        add_instance(connection, "one", "argocd")
        for statement in (TENANT, SECRET, CREDENTIAL, COMPILED, *PARKED.split(";")):
            connection.execute(statement, values)
    return sealed


async def test_keys_when_rotated_then_the_database_is_counted_resealed_and_the_former_key_kept_until_unused(
    operator: Operator, database: Database, keys: KeyFiles, kafka_bootstrap: str, registry_url: str
) -> None:
    workspace = f"ws-{uuid.uuid4().hex[:8]}"
    old = key_id_of(hold(database, workspace, keys))
    assert (await asyncio.to_thread(operator.keys, "rotate"))[0] == 0
    code, output = await asyncio.to_thread(operator.keys, "status")
    (line,) = [line for line in output.splitlines() if old in line]
    assert (code, line.split()) == (0, [old, "-", "no", "1", "1", "1", "1"])
    assert "1 compiled objects have no binding" in output
    code, output = await asyncio.to_thread(operator.keys, "retire", old)
    assert (code, "4 rows are sealed" in output) == (2, True)

    code, output = await asyncio.to_thread(operator.keys, "reseal")
    assert (code, "1 Secrets and 1 bindings sent" in output) == (0, True), output
    codec = AvroCodec(SchemaRegistry(registry_url), Command, f"{COMMANDS}-value")
    reader = CommandReader(kafka_bootstrap, codec, COMMANDS, count_partitions(kafka_bootstrap, [COMMANDS])[COMMANDS])

    def ours(sent: Sequence[Sent]) -> dict[str, ResourceChanged]:
        events = [item.event for item in sent if item.command.workspace == workspace]
        assert all(isinstance(event, ResourceChanged) for event in events)
        return {event.kind: event for event in events}

    try:
        await reader.until("both were sent", lambda sent: len(ours(sent)) == 2)
    finally:
        reader.close()
    assert {item.key for item in reader.sent if item.command.workspace == workspace} == {f"{workspace}/team-a".encode()}
    secret, environment = ours(reader.sent)["Secret"], ours(reader.sent)["GitOpsDeploymentManagedEnvironment"]
    spec, binding = orjson.loads(secret.spec), binding_of(environment.secret_binding)
    assert binding is not None
    assert (spec["keyId"] != old, binding.key_id) == (True, spec["keyId"])
    assert (environment.generation, environment.resource_version, environment.epoch) == (2, "43", 8)
    context, opening = SecretContext(workspace, "team-a", "kube", TYPE), OpeningKeys.load(keys.private)
    assert opening.open_secret_for(USE, spec["sealed"], binding.sealed, context) == {"kubeconfig": b"x"}

"""Messages and their Avro schemas say the same, and what an earlier release wrote can still be read."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import struct
import types
import typing
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import fastavro
import pytest

from services.common.avro import (
    SUBJECTS,
    AvroCodec,
    SchemaRegistry,
    decode_record,
    local_schemas,
    schema_registry,
    value_subject,
)
from services.common.errors import Poison
from services.common.kafka import COMMANDS, DEAD_LETTERS, FLEET_ORDERS, OBSERVATIONS
from services.common.messages import (
    AddEngineCluster,
    AddEngineInstance,
    Applied,
    AssignWorkspace,
    CancelMove,
    Command,
    DeadLetter,
    DedicateEngineInstance,
    DrainEngineCluster,
    DrainEngineInstance,
    EngineHealth,
    EngineInstallation,
    Failed,
    FleetOrder,
    LookAgain,
    MoveTenant,
    Observation,
    OrphansApproved,
    OrphansKept,
    PinTenant,
    RebalanceFleet,
    RebalanceInstances,
    Removed,
    RemoveEnginePool,
    ResourceChanged,
    ResourceGone,
    ResyncCompleted,
    RetireEngineCluster,
    RetireEngineInstance,
    SetEnginePool,
    StatusReported,
    UndrainEngineCluster,
    UndrainEngineInstance,
    UnpinTenant,
)
from services.common.package_data import AVRO_SCHEMAS

NOW = datetime(2026, 5, 4, 12, 30, 15, 123456, tzinfo=UTC)
RELEASED = AVRO_SCHEMAS / "released"

CHANGED = ResourceChanged(
    api_version="managed-gitops.redhat.com/v1alpha1",
    kind="GitOpsDeployment",
    name="web",
    uid="0d9c9a9e",
    resource_version="42",
    generation=3,
    epoch=1_700_000_000_000,
    deleting=False,
    finalizers=("a/b", "c/d"),
    actor="kubectl",
    spec='{"type":"automated","source":{"path":"ü"}}',
)


def command(event: Any) -> Command:
    return Command(source="local", workspace="local", namespace="team-a", seen_at=NOW, event=event)


def observation(event: Any) -> Observation:
    return Observation(
        workspace="local",
        namespace="team-a",
        engine_instance_id="argocd",
        kind="Application",
        name="gitopsdepl-1",
        observed_at=NOW,
        event=event,
    )


def fleet_order(order: Any) -> FleetOrder:
    return FleetOrder(UUID(int=1), "ada", NOW, order)


SAMPLES: dict[str, list[Any]] = {
    "gitops.commands-value": [
        command(CHANGED),
        command(ResourceGone("GitOpsDeployment", "web", "0d9c9a9e", "43")),
        command(ResyncCompleted("GitOpsDeployment", 7)),
        command(LookAgain("GitOpsDeployment")),
        command(OrphansApproved("engine-1", "abc")),
    ],
    "gitops.observations-value": [
        observation(Applied("abc")),
        observation(Applied("abc", drift_repaired=True)),
        observation(StatusReported('{"sync":{}}', "9")),
        observation(Removed(forced=True)),
        observation(Failed("abc", permanent=True, message="no")),
        observation(EngineHealth("Healthy", "", "", "3.2.11", NOW)),
        observation(EngineHealth("Down", "HeartbeatLost", "…", "", None, queue=7, certificate_expires_at=NOW)),
        observation(EngineHealth("Healthy", "", "", "", None, applications=9, tenants=3, failing_tenants=2)),
        observation(EngineInstallation("Failed", "3.2.11", "no manifests")),
        observation(OrphansKept(100, 20, ("Application/a", "Secret/b"), ("abc",))),
    ],
    "gitops.dead-letters-value": [
        DeadLetter("planner", "gitops.commands", 3, 99, b"k", None, {"traceparent": b"00"}, "why", NOW)
    ],
    "gitops.fleet-orders-value": [
        fleet_order(AddEngineCluster("north", "eu")),
        fleet_order(AddEngineInstance("one", "north", "argocd", "argocd", "dedicated", "team", "canary", 100)),
        fleet_order(AddEngineInstance("one", "north", "a", "argocd", "shared", "", "canary", 100, "3.2.11", "fast")),
        fleet_order(DrainEngineInstance("one")),
        fleet_order(UndrainEngineInstance("one")),
        fleet_order(RetireEngineInstance("one")),
        fleet_order(MoveTenant("local", "team-a", "one")),
        fleet_order(CancelMove("local", "team-a")),
        fleet_order(RebalanceFleet()),
        fleet_order(RebalanceInstances(("one", "two"))),
        fleet_order(DrainEngineCluster("north")),
        fleet_order(UndrainEngineCluster("north")),
        fleet_order(RetireEngineCluster("north")),
        fleet_order(DedicateEngineInstance("argocd-2", "team")),
        fleet_order(AssignWorkspace("team", "eu", "")),
        fleet_order(PinTenant("team", "web", "argocd-2")),
        fleet_order(UnpinTenant("team", "web")),
        fleet_order(SetEnginePool("north", "general", 1, 9, 1, 2500, "3.2.11", "")),
        fleet_order(RemoveEnginePool("north", "general")),
    ],
}
CASES = [(subject, sample) for subject, samples in SAMPLES.items() for sample in samples]
MESSAGES: dict[str, type] = {subject: type(samples[0]) for subject, samples in SAMPLES.items()}


class FileRegistry:
    """Answers as the registry does, from a table of schemas by id."""

    def __init__(self, schemas: dict[int, Any]) -> None:
        self._schemas = schemas

    def local_schema(self, subject: str) -> Any:
        return fastavro.parse_schema(local_schemas()[subject])

    def id_of(self, subject: str) -> int:
        return 7

    def schema_by_id(self, schema_id: int) -> Any:
        if schema_id not in self._schemas:
            raise Poison(f"schema {schema_id} is not in the registry")
        return fastavro.parse_schema(self._schemas[schema_id])


def codec(subject: str, writer: Any = None) -> AvroCodec[Any]:
    registry: Any = FileRegistry({7: writer or local_schemas()[subject]})
    return AvroCodec(registry, MESSAGES[subject], subject)


@pytest.mark.parametrize(("subject", "sample"), CASES, ids=lambda case: getattr(case, "event", case).__class__.__name__)
def test_message_when_encoded_and_decoded_then_it_is_the_same(subject: str, sample: Any) -> None:
    assert codec(subject).decode_message(codec(subject).encode_message(sample)) == sample


def record_fields(schema: Any) -> dict[str, Any]:
    return {field["name"]: field["type"] for field in schema["fields"]}


def nested_records(schema: Any) -> dict[str, Any]:
    """Records of the union among the fields, by name."""
    unions = [kind for kind in record_fields(schema).values() if isinstance(kind, list)]
    return {branch["name"]: branch for union in unions for branch in union if isinstance(branch, dict)}


def nested_classes(message: type) -> dict[str, type]:
    hints = typing.get_type_hints(message).values()
    unions = [typing.get_args(hint) for hint in hints if isinstance(hint, types.UnionType)]
    return {member.__name__: member for union in unions for member in union if dataclasses.is_dataclass(member)}


@pytest.mark.parametrize("subject", SUBJECTS)
def test_schema_when_compared_with_its_model_then_names_and_order_agree(subject: str) -> None:
    schema, message = local_schemas()[subject], MESSAGES[subject]
    assert schema["name"] == message.__name__
    assert list(record_fields(schema)) == [field.name for field in dataclasses.fields(message)]
    assert nested_records(schema).keys() == nested_classes(message).keys()
    for name, record in nested_records(schema).items():
        assert list(record_fields(record)) == [
            field.name for field in dataclasses.fields(nested_classes(message)[name])
        ]


@pytest.mark.parametrize("subject", SUBJECTS)
def test_schema_when_it_differs_from_the_last_release_then_it_was_released_anew(subject: str) -> None:
    latest = released(subject)[-1]
    current = AVRO_SCHEMAS / SUBJECTS[subject]
    assert current.read_text() == latest.read_text(), (
        f"{current.name} changed: copy it to {latest.parent.name}/ under the next version, which is then never edited"
    )


def test_subject_when_of_a_topic_that_holds_our_messages_then_it_has_a_schema() -> None:
    assert {value_subject(topic) for topic in (COMMANDS, OBSERVATIONS, DEAD_LETTERS, FLEET_ORDERS)} == SUBJECTS.keys()


def test_registry_when_its_url_carries_a_login_then_its_name_does_not() -> None:
    registry = SchemaRegistry("https://reader:hunter2@registry.example.com:8443/apis/ccompat/v7")
    assert registry.name == "schema registry at https://registry.example.com:8443/apis/ccompat/v7"


def test_released_schema_when_compared_with_its_checksum_then_nobody_has_edited_it() -> None:
    lines = (RELEASED / "SHA256SUMS").read_text().splitlines()
    recorded = {name: checksum for checksum, name in (line.split() for line in lines)}
    present = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in RELEASED.glob("*.avsc")}
    assert present == recorded, "a new version is added with 'sha256sum'; those before it stay as they were sent"


@pytest.mark.parametrize(
    ("subject", "version"),
    [(subject, path) for subject in SUBJECTS for path in sorted(RELEASED.glob(f"{SUBJECTS[subject][:-5]}.v*.avsc"))],
    ids=lambda case: getattr(case, "name", case),
)
def test_released_schema_when_it_wrote_a_message_then_this_build_reads_it(subject: str, version: Path) -> None:
    writer = json.loads(version.read_text())
    for sample in filter(partial(is_known, writer), SAMPLES[subject]):
        decoded = codec(subject, writer).decode_message(written_by(writer, subject, sample))
        assert isinstance(decoded, MESSAGES[subject])


def is_known(writer: Any, sample: Any) -> bool:
    """Whether the version has the sample's event: some were added later."""
    unions = {name: kind for name, kind in record_fields(writer).items() if isinstance(kind, list)}
    records = {name: {each["name"] for each in kind if isinstance(each, dict)} for name, kind in unions.items()}
    return all(type(getattr(sample, name)).__name__ in known for name, known in records.items() if known)


def written_by(writer: Any, subject: str, sample: Any) -> bytes:
    """The bytes an older build would have sent: the sample through the writer's fields only."""
    current = codec(subject).encode_message(sample)
    record = fastavro.schemaless_reader(
        io.BytesIO(current[5:]), fastavro.parse_schema(local_schemas()[subject]), None, return_record_name=True
    )
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, fastavro.parse_schema(writer), record)
    return struct.pack(">bI", 0, 7) + buffer.getvalue()


def released(subject: str) -> list[Path]:
    stem = SUBJECTS[subject].removesuffix(".avsc")
    return sorted(RELEASED.glob(f"{stem}.v*.avsc"), key=lambda path: int(path.name.split(".v")[1].split(".")[0]))


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        pytest.param(None, "wire format", id="tombstone"),
        pytest.param(b"", "wire format", id="empty"),
        pytest.param(b"{}", "wire format", id="json"),
        pytest.param(b"\x01\x00\x00\x00\x07abc", "wire format", id="other-magic"),
        pytest.param(b"\x00\x00\x00\x00\x63abc", "not in the registry", id="unknown-schema"),
        pytest.param(b"\x00\x00\x00\x00\x07", "does not fit", id="no-datum"),
        pytest.param(b"\x00\x00\x00\x00\x07\x04\xff\xfe", "does not fit", id="invalid-utf-8"),
        pytest.param(b"\x00\x00\x00\x00\x07\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01", "does not fit", id="huge-length"),
    ],
)
def test_bytes_when_they_are_no_message_then_they_are_poison(message: bytes | None, reason: str) -> None:
    with pytest.raises(Poison, match=reason):
        codec("gitops.commands-value").decode_message(message)


def test_schema_when_it_is_registered_but_no_avro_then_its_messages_are_poison(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = SchemaRegistry("http://127.0.0.1:9")
    monkeypatch.setattr(schema_registry, "_fetched", lambda *_: '{"type": "no such type"}')
    with pytest.raises(Poison, match="not an Avro schema"):
        registry.schema_by_id(7)


def test_order_when_a_planner_of_before_it_reads_it_then_it_is_poison_and_not_one_of_the_whole_fleet() -> None:
    subject = "gitops.fleet-orders-value"
    sent = codec(subject).encode_message(fleet_order(RebalanceInstances(("one",))))
    before = fastavro.parse_schema(json.loads((RELEASED / "fleet_order.v6.avsc").read_text()))
    registry: Any = FileRegistry({7: local_schemas()[subject]})
    with pytest.raises(Poison, match="datum does not fit"):
        decode_record(registry, sent, before)

"""Keys rotate without a moment in which something cannot be opened."""

from __future__ import annotations

import base64
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import pytest
from typer.testing import CliRunner, Result

from services.cli import sending
from services.cli.sealing import keys, sealed_rows
from services.cli.sealing.sealed_rows import Count, SealedRow
from services.common.api_resource import SECRET
from services.common.errors import InvalidConfiguration
from services.common.messages import Command, ResourceChanged
from services.common.sealing import OpeningKeys, SealingKeys, SecretContext, key_id_of
from services.common.secret_use import SecretUse
from services.kinds.managed_environment.model import MANAGED_ENVIRONMENT
from services.kinds.secret.rules import is_late_reseal
from services.kinds.shared.api_group import FINALIZER
from services.kinds.shared.secret_binding import SecretBinding, binding_of

CONTENT = "PLANTED-CONTENT"
USE = SecretUse("https://api.example.com")
SPEC = '{"credentialsSecret":"kube"}'
PROJECTED = ('{"labels":{}}', "", "{}", "the status is too long")
CONTEXT = SecretContext("local", "team-a", "kube", "managed-gitops.redhat.com/managed-environment")
NOW = datetime(2026, 5, 4, tzinfo=UTC)


class Bench:
    """A folder with keys, and the database as the test says it is."""

    def __init__(self, folder: Path) -> None:
        self.private, self.public = folder / "private.json", folder / "public.json"
        self.counts: dict[str, Count] = {}
        self.rows: list[SealedRow] = []
        self.unbound = 0
        self.sent: list[Command] = []

    def run(self, *arguments: str, files: bool = True) -> Result:
        paths = ["--private", str(self.private), "--public", str(self.public)] if files else []
        environment = {
            "DATABASE_OWNER_URL": "postgresql://x",
            "KAFKA_BOOTSTRAP_SERVERS": "kafka:9092",
            "SCHEMA_REGISTRY_URL": "http://registry",
        }
        return CliRunner().invoke(keys.app, [*arguments, *paths], env=environment)

    @property
    def active(self) -> str:
        return SealingKeys.load(self.public).active_id

    @property
    def ids(self) -> tuple[str, ...]:
        return OpeningKeys.load(self.private).ids


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    bench = Bench(tmp_path)
    monkeypatch.setattr(sealed_rows, "count_by_key", lambda _: bench.counts)
    monkeypatch.setattr(sealed_rows, "rows_not_under", lambda _, key_id: bench.rows)
    monkeypatch.setattr(sealed_rows, "count_unbound", lambda _: bench.unbound)
    monkeypatch.setattr(sending, "send_commands", lambda _, commands: bench.sent.extend(commands))
    return bench


def sealed_row(bench: Bench) -> SealedRow:
    data = {"kubeconfig": base64.b64encode(CONTENT.encode()).decode()}
    sealed = SealingKeys.load(bench.public).seal_secret(data, CONTEXT)
    spec = orjson.dumps({"type": CONTEXT.type, "sealed": sealed, "keyId": key_id_of(sealed)}).decode()
    return SealedRow(
        "local", "team-a", "local", SECRET.kind, "kube", "uid-kube", "42", 0, 7, False, False,
        spec, "", "", "", "", 1000, NOW, "", 0, "", "", "", "",
    )  # fmt: skip


def test_generate_when_there_are_none_then_a_pair_is_made_that_only_the_owner_may_read(bench: Bench) -> None:
    assert bench.run("generate").exit_code == 0
    assert bench.ids == (bench.active,)
    assert bench.private.stat().st_mode & 0o777 == 0o600


def test_generate_when_there_are_keys_then_they_are_not_overwritten(bench: Bench) -> None:
    bench.run("generate")
    before = bench.private.read_bytes()
    assert isinstance(bench.run("generate").exception, InvalidConfiguration)
    assert bench.run("generate", "--if-missing").exit_code == 0
    assert bench.private.read_bytes() == before


def test_rotate_when_done_then_the_new_key_is_active_and_the_former_still_opens(bench: Bench) -> None:
    bench.run("generate")
    before, sealed = bench.active, orjson.loads(sealed_row(bench).spec)["sealed"]
    assert bench.run("rotate").exit_code == 0
    assert bench.active != before
    assert set(bench.ids) == {before, bench.active}
    assert OpeningKeys.load(bench.private).open_secret(sealed, CONTEXT) == {"kubeconfig": CONTENT.encode()}


def test_rotate_when_the_active_key_is_young_enough_then_it_stays(bench: Bench) -> None:
    bench.run("generate")
    before = bench.private.read_bytes()
    outcome = bench.run("rotate", "--if-older-than", "P1D")
    assert outcome.exit_code == 0
    assert "stays" in outcome.output
    assert bench.private.read_bytes() == before


def test_rotate_when_the_active_key_is_too_old_then_a_new_one_is_active(bench: Bench) -> None:
    bench.run("generate")
    before = bench.active
    assert bench.run("rotate", "--if-older-than", "PT0S").exit_code == 0
    assert bench.active != before


def test_rotate_when_a_key_does_not_say_when_it_was_made_then_it_is_too_old(bench: Bench) -> None:
    bench.run("generate")
    before = bench.active
    for path in (bench.private, bench.public):
        keys_of = orjson.loads(path.read_bytes())["keys"]
        path.write_bytes(orjson.dumps({"keys": [{k: v for k, v in key.items() if k != "iat"} for key in keys_of]}))
    assert bench.run("rotate", "--if-older-than", "P3650D").exit_code == 0
    assert bench.active != before


def test_rotate_when_the_age_is_no_duration_then_it_says_so(bench: Bench) -> None:
    bench.run("generate")
    assert "ISO 8601" in bench.run("rotate", "--if-older-than", "soon").output


def test_retire_when_nothing_is_sealed_under_the_key_then_it_is_gone(bench: Bench) -> None:
    bench.run("generate")
    old = bench.active
    bench.run("rotate")
    assert bench.run("retire", old).exit_code == 0
    assert bench.ids == (bench.active,)


REFUSALS: dict[str, tuple[Count | None, bool, str]] = {
    "secrets": (Count(secrets=2), False, "2 rows"),
    "bindings": (Count(bindings=4), False, "4 rows"),
    "compiled-objects": (Count(compiled=1), False, "1 rows"),
    "parked-events": (Count(parked=3), False, "3 of them wait for parked tenants"),
    "active": (None, True, "active key"),
}


@pytest.mark.parametrize(("count", "active", "reason"), REFUSALS.values(), ids=REFUSALS)
def test_retire_when_the_key_is_needed_then_it_stays(
    bench: Bench, count: Count | None, active: bool, reason: str
) -> None:
    bench.run("generate")
    old = bench.active
    bench.run("rotate")
    bench.counts = {old: count} if count else {}
    outcome = bench.run("retire", bench.active if active else old)
    assert reason in str(outcome.exception)
    assert len(bench.ids) == 2


def test_retire_when_the_key_is_unknown_then_it_says_which_there_are(bench: Bench) -> None:
    bench.run("generate")
    assert bench.active in str(bench.run("retire", "other").exception)


def test_status_when_secrets_are_sealed_under_several_keys_then_it_counts_them(bench: Bench) -> None:
    bench.run("generate")
    bench.counts = {bench.active: Count(secrets=3, compiled=2), "old": Count(secrets=1)}
    bench.unbound = 5
    output = bench.run("status", "--public", str(bench.public), files=False).output
    assert [bench.active, "True", "3", "0", "2", "0"] in [line.split() for line in output.splitlines()]
    assert ["old", "False", "1", "0", "0", "0"] in [line.split() for line in output.splitlines()]
    assert "5 compiled objects have no binding" in output


def test_reseal_when_a_secret_is_under_a_former_key_then_its_change_is_sent_again_under_the_active_one(
    bench: Bench,
) -> None:
    bench.run("generate")
    row = sealed_row(bench)
    bench.rows = [row]
    bench.run("rotate")
    outcome = bench.run("reseal")
    assert outcome.exit_code == 0, outcome.exception
    (command,) = bench.sent
    event: Any = command.event
    assert isinstance(event, ResourceChanged)
    assert (command.workspace, command.namespace, command.source) == ("local", "team-a", "local")
    assert (event.kind, event.uid, event.resource_version, event.epoch) == ("Secret", "uid-kube", "42", 7)
    spec = orjson.loads(event.spec)
    assert is_late_reseal(None, event)
    assert spec["keyId"] == key_id_of(spec["sealed"]) == bench.active
    assert OpeningKeys.load(bench.private).open_secret(spec["sealed"], CONTEXT) == {"kubeconfig": CONTENT.encode()}
    assert CONTENT not in outcome.output


def bound_row(bench: Bench) -> SealedRow:
    data = {"kubeconfig": base64.b64encode(CONTENT.encode()).decode()}
    sealed = SealingKeys.load(bench.public).seal_binding(data, USE, CONTEXT)
    binding = SecretBinding("uid-kube", "41", USE.digest, key_id_of(sealed), sealed).text
    return SealedRow(
        "local", "team-a", "local", MANAGED_ENVIRONMENT.kind, "prod", "uid-prod", "42", 3, 7, False, True,
        SPEC, "", "kube", CONTEXT.type, binding, 1000, NOW, "", 0, *PROJECTED,
    )  # fmt: skip


def test_reseal_when_a_binding_is_under_a_former_key_then_its_resource_is_sent_again_with_one_under_the_active_key(
    bench: Bench,
) -> None:
    bench.run("generate")
    bench.rows = [bound_row(bench)]
    former = SealingKeys.load(bench.public).seal_secret(
        {"kubeconfig": base64.b64encode(CONTENT.encode()).decode()}, CONTEXT
    )
    bench.run("rotate")
    outcome = bench.run("reseal")
    assert outcome.exit_code == 0, outcome.exception
    (command,) = bench.sent
    event: Any = command.event
    assert (event.kind, event.uid, event.resource_version, event.generation) == (
        MANAGED_ENVIRONMENT.kind,
        "uid-prod",
        "42",
        3,
    )
    assert (event.spec, event.secret_type, event.finalizers) == (SPEC, CONTEXT.type, (FINALIZER,))
    assert (event.metadata, event.metadata_omitted, event.status, event.status_omitted) == PROJECTED
    binding = binding_of(event.secret_binding)
    assert binding is not None
    assert binding.subject == ("uid-kube", "41", USE.digest)
    assert binding.key_id == key_id_of(binding.sealed) == bench.active
    assert OpeningKeys.load(bench.private).open_secret_for(USE, former, binding.sealed, CONTEXT)
    assert is_late_reseal(None, event)


def test_reseal_when_a_secret_will_not_open_then_it_says_which_and_the_others_are_sent(bench: Bench) -> None:
    bench.run("generate")
    lost = sealed_row(bench)
    bench.private.unlink()
    bench.public.unlink()
    bench.run("generate")
    bench.rows = [lost, replace(sealed_row(bench), uid="uid-kept")]
    bench.run("rotate")
    outcome = bench.run("reseal")
    assert "1 do not open; local/team-a/kube: sealed under a key that is not here" in str(outcome.exception)
    assert [command.event.uid for command in bench.sent] == ["uid-kept"]


@pytest.mark.parametrize("command", ["rotate", "reseal"])
def test_command_when_there_are_no_keys_then_it_names_the_file(bench: Bench, command: str) -> None:
    assert str(bench.private) in str(bench.run(command).exception)

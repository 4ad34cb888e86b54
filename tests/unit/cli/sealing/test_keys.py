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
        return SealingKeys.load(self.public).active_ids[""]

    @property
    def ids(self) -> tuple[str, ...]:
        return OpeningKeys.load(self.private).ids


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    bench = Bench(tmp_path)
    monkeypatch.setattr(sealed_rows, "count_by_key", lambda _: bench.counts)
    monkeypatch.setattr(sealed_rows, "stored_rows", lambda _: bench.rows)
    monkeypatch.setattr(sealed_rows, "count_unbound", lambda _: bench.unbound)
    monkeypatch.setattr(sending, "send_commands", lambda _, commands: bench.sent.extend(commands))
    return bench


SHAPE = SealedRow(
    "local", "team-a", "local", SECRET.kind, "kube", "uid-kube", "42", 0, 7, False, False,
    "", "", "", "", "", 1000, NOW, "", 0, "", "", "", "",
)  # fmt: skip


def sealed_row(bench: Bench, *clusters: str) -> SealedRow:
    data = {"kubeconfig": base64.b64encode(CONTENT.encode()).decode()}
    sealed = SealingKeys.load(bench.public).seal_secret(data, CONTEXT, clusters)
    spec = orjson.dumps({"type": CONTEXT.type, "sealed": sealed, "keyId": key_id_of(sealed)}).decode()
    return replace(SHAPE, spec=spec)


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
    assert [bench.active, "-", "yes", "3", "0", "2", "0"] in [line.split() for line in output.splitlines()]
    assert ["old", "-", "no", "1", "0", "0", "0"] in [line.split() for line in output.splitlines()]
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


class Clusters:
    """Private files of two engine clusters beside one public file."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self.files = {each: bench.private.with_name(f"{each}.json") for each in ("south", "north")}

    def run(self, cluster: str, *arguments: str) -> Result:
        self._bench.private = self.files[cluster]
        return self._bench.run(*arguments)

    @property
    def active(self) -> dict[str, str]:
        return SealingKeys.load(self._bench.public).active_ids

    def ids(self, cluster: str) -> tuple[str, ...]:
        return OpeningKeys.load_of_cluster(self.files[cluster], cluster).ids


@pytest.fixture
def clusters(bench: Bench) -> Clusters:
    clusters = Clusters(bench)
    for cluster in clusters.files:
        assert clusters.run(cluster, "generate", "--engine-cluster", cluster).exit_code == 0
    return clusters


def test_generate_when_of_a_cluster_then_its_agents_have_a_file_of_their_own_and_watchers_all_public_keys(
    clusters: Clusters,
) -> None:
    assert {each: clusters.ids(each) for each in clusters.files} == {
        each: (kid,) for each, kid in clusters.active.items()
    }


def test_generate_when_the_cluster_has_a_key_then_another_file_of_it_is_not_begun(
    bench: Bench, clusters: Clusters
) -> None:
    bench.private = bench.private.with_name("another.json")
    assert "'rotate' adds one" in str(bench.run("generate", "--engine-cluster", "north").exception)
    assert not bench.private.exists()


def test_rotate_when_the_keys_are_a_clusters_then_the_other_clusters_stay_as_they_are(clusters: Clusters) -> None:
    before = clusters.active
    assert clusters.run("north", "rotate").exit_code == 0
    assert clusters.active["south"] == before["south"]
    assert clusters.active["north"] != before["north"]
    assert clusters.ids("north") == (before["north"], clusters.active["north"])
    refused = clusters.run("north", "rotate", "--engine-cluster", "south")
    assert "has keys of engine cluster north" in str(refused.exception)


def test_retire_when_a_clusters_former_key_is_unused_then_it_goes_from_both_files_and_no_other(
    bench: Bench, clusters: Clusters
) -> None:
    before = clusters.active
    assert clusters.run("north", "retire", before["north"]).exit_code == 1
    clusters.run("north", "rotate")
    assert clusters.run("north", "retire", before["north"]).exit_code == 0
    public = orjson.loads(bench.public.read_bytes())["keys"]
    assert {key["kid"] for key in public} == {*clusters.active.values()}
    assert clusters.active["south"] == before["south"]


def test_keys_when_an_installation_goes_over_to_a_key_for_each_cluster_then_the_shared_one_is_retired_last(
    bench: Bench,
) -> None:
    bench.run("generate")
    shared, everybodys = bench.active, bench.private
    for cluster in ("south", "north"):
        bench.private = everybodys.with_name(f"{cluster}.json")
        bench.private.write_bytes(everybodys.read_bytes())
        assert bench.run("rotate", "--engine-cluster", cluster).exit_code == 0
    active = SealingKeys.load(bench.public).active_ids
    assert (active[""], {*active}) == (shared, {"", "south", "north"})
    bench.counts = {shared: Count(secrets=1)}
    assert "1 rows are sealed" in str(bench.run("retire", shared).exception)
    bench.counts = {}
    for cluster in ("south", "north"):
        bench.private = everybodys.with_name(f"{cluster}.json")
        assert bench.run("retire", shared).exit_code == 0
        assert OpeningKeys.load_of_cluster(bench.private, cluster).ids == (active[cluster],)
    assert SealingKeys.load(bench.public).active_ids == {each: active[each] for each in ("south", "north")}


def test_reseal_when_the_keys_are_a_clusters_then_its_tenants_are_sealed_anew_for_where_they_are(
    bench: Bench, clusters: Clusters
) -> None:
    former = {each: replace(sealed_row(bench, each), engine_clusters=each) for each in clusters.files}
    moving = replace(former["north"], uid="uid-moving", engine_clusters="north,south")
    clusters.run("north", "rotate")
    bench.rows = [*former.values(), moving, replace(former["north"], uid="uid-unknown", engine_clusters="")]
    assert clusters.run("north", "reseal").exit_code == 0
    sent = {command.event.uid: orjson.loads(command.event.spec) for command in bench.sent}  # type: ignore[union-attr]
    assert {*sent} == {"uid-kube", "uid-moving"}
    assert sent["uid-kube"]["keyId"] == clusters.active["north"]
    assert {*sent["uid-moving"]["keyId"].split(",")} == {*clusters.active.values()}
    opened = OpeningKeys.load(clusters.files["south"]).open_secret(sent["uid-moving"]["sealed"], CONTEXT)
    assert opened == {"kubeconfig": CONTENT.encode()}


def test_reseal_when_a_tenant_has_left_the_cluster_then_its_keys_seal_for_the_new_one_what_no_others_open(
    bench: Bench, clusters: Clusters
) -> None:
    left = replace(sealed_row(bench, "north"), engine_clusters="south")
    bench.rows = [left]
    assert "1 do not open" in str(clusters.run("south", "reseal").exception)
    assert bench.sent == []
    assert clusters.run("north", "reseal").exit_code == 0
    (command,) = bench.sent
    spec = orjson.loads(command.event.spec)  # type: ignore[union-attr]
    assert spec["keyId"] == clusters.active["south"]
    opened = OpeningKeys.load(clusters.files["south"]).open_secret(spec["sealed"], CONTEXT)
    assert opened == {"kubeconfig": CONTENT.encode()}


def test_status_when_keys_name_clusters_then_it_shows_whose_they_are(bench: Bench, clusters: Clusters) -> None:
    bench.counts = {clusters.active["north"]: Count(secrets=2)}
    result = CliRunner().invoke(
        keys.app,
        ["status", "--output", "json"],
        env={"DATABASE_OWNER_URL": "postgresql://x", "SEALING_PUBLIC_KEYS": str(bench.public)},
    )
    assert [(row["engineCluster"], row["active"]) for row in orjson.loads(result.output)] == [("north", True)]

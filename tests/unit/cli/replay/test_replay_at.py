"""What was desired at a time: in which order the logs are replayed, what is shown, and what is put in force again."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest
from typer.testing import CliRunner, Result

from services.cli.replay import reissue, replay, replay_at
from services.cli.replay.desired_state import SEALED, Subject, diff_lines, without_sealed
from services.cli.replay.reissue import StoredDeployment, choose, reissued
from services.cli.replay.replay_at import States, partition_of
from services.cli.replay.replayed_logs import in_batches, merged
from services.common.errors import InvalidConfiguration
from services.common.kafka import COMMANDS, OBSERVATIONS, ConsumedMessage, TopicPartition, TrackedOffset
from services.common.messages import ResourceChanged

TENANT = ("local", "team-a")
NAME = "local/team-a"
ENVIRONMENT = {
    "DATABASE_OWNER_URL": "postgresql://x",
    "KAFKA_BOOTSTRAP_SERVERS": "localhost:1",
    "SCHEMA_REGISTRY_URL": "http://localhost:1",
}
OLD, NEW = {"source": {"path": "old"}}, {"source": {"path": "new"}}
METADATA = '{"labels":{}}'
ROW = StoredDeployment("local", "web", "uid-1", "42", 7, 9, True, METADATA, "ns-uid", 5)


def message(topic: str, offset: int, seconds: float) -> ConsumedMessage:
    return ConsumedMessage(TrackedOffset(TopicPartition(topic, 0), offset, 0), b"k", b"", (), seconds)


def deployment(name: str, spec: Mapping[str, Any] | None) -> dict[Subject, Mapping[str, Any]]:
    return {Subject(NAME, "GitOpsDeployment", name): {"uid": f"uid-{name}", "generation": 1, "specInForce": spec}}


THEN = deployment("web", OLD) | deployment("same", OLD) | deployment("deleted", OLD) | deployment("waited", None)
NOW = deployment("web", NEW) | deployment("same", OLD) | deployment("late", NEW) | deployment("waited", NEW)


def test_logs_when_replayed_then_messages_are_taken_in_the_order_in_which_they_were_written() -> None:
    commands = [message(COMMANDS, 0, 1), message(COMMANDS, 1, 5)]
    reports = [message(OBSERVATIONS, 0, 2), message(OBSERVATIONS, 1, 3), message(OBSERVATIONS, 2, 6)]
    found = [(each.topic, each.offset) for each in merged([commands, reports])]
    assert found == [(COMMANDS, 0), (OBSERVATIONS, 0), (OBSERVATIONS, 1), (COMMANDS, 1), (OBSERVATIONS, 2)]


def test_log_when_its_clocks_disagree_then_its_own_order_stays() -> None:
    commands = [message(COMMANDS, 0, 9), message(COMMANDS, 1, 1)]
    found = [each.offset for each in merged([commands, [message(OBSERVATIONS, 7, 3)]]) if each.topic == COMMANDS]
    assert found == [0, 1]


def test_messages_when_there_are_many_then_they_come_in_batches() -> None:
    messages = [message(COMMANDS, number, number) for number in range(5)]
    assert [len(batch) for batch in in_batches(iter(messages), 2)] == [2, 2, 1]


@pytest.mark.parametrize(
    ("key", "hashed"), [(b"21", -973932308), (b"foobar", -790332482), (b"a-little-bit-long-string", -985981536)]
)
def test_tenant_when_it_is_asked_for_then_its_messages_are_looked_for_where_producers_put_them(
    key: bytes, hashed: int
) -> None:
    """The values are those of Kafka's own tests of murmur2."""
    assert partition_of(key, 12) == hashed % 2**31 % 12


def test_recipe_when_shown_then_nothing_that_is_sealed_is() -> None:
    secret = {"name": "kubeconfig", "version": "3", "sealed": "eyJhbGci.x", "binding": "eyJhbGci.y"}
    shown = without_sealed({"kind": "Secret", "recipe": {"apiURL": "https://a", "secret": secret}})
    assert shown["recipe"]["secret"] == {"name": "kubeconfig", "version": "3", "sealed": SEALED, "binding": SEALED}
    assert b"eyJ" not in orjson.dumps(shown)


def test_diff_when_a_tenant_wrote_control_characters_then_none_reaches_the_terminal() -> None:
    lines = list(diff_lines(deployment("web", {"path": "\x1b[31mred\x9b"}), {}))
    assert not any(ord(each) < 0x20 or ord(each) > 0x7E for line in lines for each in line)


def test_diff_when_something_changed_then_it_tells_then_and_now_and_nothing_else() -> None:
    lines = list(
        diff_lines(deployment("web", OLD) | deployment("same", OLD), deployment("web", NEW) | deployment("same", OLD))
    )
    assert lines[:2] == ["--- local/team-a: GitOpsDeployment/web then", "+++ local/team-a: GitOpsDeployment/web now"]
    assert [line for line in lines[2:] if line[0] in "+-"] == ["-    path: old", "+    path: new"]


def test_specs_when_chosen_then_they_are_those_that_were_in_force_then_and_are_not_now() -> None:
    chosen = choose(THEN, NOW)
    assert (chosen.specs, chosen.gone) == ({"web": OLD}, ("deleted",))


def test_spec_when_re_issued_then_the_command_tells_of_the_resource_as_it_is_known_by_now() -> None:
    command = reissued(TENANT, ROW, OLD, datetime.now(UTC))
    event = command.event
    assert isinstance(event, ResourceChanged)
    assert (event.uid, event.resource_version, event.generation, event.epoch) == ("uid-1", "42", 7, 9)
    assert event.metadata == METADATA
    assert (command.source, command.namespace_uid, orjson.loads(event.spec)) == ("local", "ns-uid", OLD)


class TestApply:
    """``--apply``, on two states that differ."""

    @pytest.fixture(autouse=True)
    def sent(self, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
        sent: list[Any] = []
        monkeypatch.setattr(replay_at, "compare", lambda *_: States(THEN, NOW, ()))
        monkeypatch.setattr(reissue, "send_specs", lambda *found: sent.append(found[2:]))
        return sent

    def call(self, *arguments: str) -> Result:
        return CliRunner().invoke(replay.app, ["at", "PT1H", *arguments], env=ENVIRONMENT)

    def test_specs_when_the_tenant_is_named_once_more_then_they_are_sent(self, sent: list[Any]) -> None:
        told = self.call("--tenant", NAME, "--apply", "--confirm", NAME).stderr
        assert sent == [(TENANT, {"web": OLD})]
        assert "GitOpsDeployment/web: its spec then re-issued" in told
        assert "GitOpsDeployment/deleted is there no more" in told

    def test_spec_when_its_deployment_is_named_then_no_other_is_sent(
        self, sent: list[Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        then, now = (THEN | deployment("more", spec) | deployment("most", spec) for spec in (OLD, NEW))
        monkeypatch.setattr(replay_at, "compare", lambda *_: States(then, now | deployment("web", NEW), ()))
        wanted = ("--resource", "GitOpsDeployment/web", "--resource", "gitopsdeployments/most")
        told = self.call("--tenant", NAME, *wanted, "--apply", "--confirm", NAME).stderr
        assert sent == [(TENANT, {"web": OLD, "most": OLD})]
        assert "GitOpsDeployment/more" not in told

    @pytest.mark.parametrize(
        ("wanted", "reason"),
        [
            pytest.param(
                "GitOpsDeployment/same", "its spec then is the one that is in force now", id="does not differ"
            ),
            pytest.param("GitOpsDeployment/late", "no spec of it was in force then", id="came later"),
            pytest.param("GitOpsDeployment/waited", "no spec of it was in force then", id="waited"),
            pytest.param("GitOpsDeployment/deleted", "only its owner can create it again", id="deleted since"),
            pytest.param("GitOpsDeployment/never", "there was none then, and is none now", id="never was"),
            pytest.param("GitOpsDeploymentManagedEnvironment/prod", "of GitOpsDeployments alone", id="another kind"),
            pytest.param("web", "is not KIND/NAME", id="no kind"),
        ],
    )
    def test_spec_when_nothing_of_what_is_named_can_be_put_in_force_then_none_is_sent_and_the_error_says_why(
        self, sent: list[Any], wanted: str, reason: str
    ) -> None:
        named = ("--resource", "GitOpsDeployment/web", "--resource", wanted)
        ended = self.call("--tenant", NAME, *named, "--apply", "--confirm", NAME)
        assert isinstance(ended.exception, InvalidConfiguration)
        assert reason in str(ended.exception)
        assert sent == []

    def test_resource_when_it_is_named_without_apply_then_it_is_refused(self) -> None:
        ended = self.call("--tenant", NAME, "--resource", "GitOpsDeployment/web")
        assert isinstance(ended.exception, InvalidConfiguration)

    def test_specs_when_the_tenant_is_not_named_once_more_then_it_is_only_told(self, sent: list[Any]) -> None:
        told = self.call("--tenant", NAME, "--apply").stderr
        assert "GitOpsDeployment/web: its spec then would be re-issued" in told
        assert sent == []

    def test_specs_when_another_name_confirms_then_nothing_is_done_and_the_error_says_what_to_type(
        self, sent: list[Any]
    ) -> None:
        ended = self.call("--tenant", NAME, "--apply", "--confirm", "local/team-b")
        assert isinstance(ended.exception, InvalidConfiguration)
        assert f"--confirm {NAME}" in str(ended.exception)
        assert (sent, ended.stdout) == ([], "")

    def test_specs_when_no_tenant_is_named_then_nothing_is_done(self, sent: list[Any]) -> None:
        ended = self.call("--apply")
        assert isinstance(ended.exception, InvalidConfiguration)
        assert sent == []

    def test_specs_when_there_are_too_many_then_none_is_sent(
        self, sent: list[Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(reissue, "MOST", 0)
        ended = self.call("--tenant", NAME, "--apply", "--confirm", NAME)
        assert isinstance(ended.exception, InvalidConfiguration)
        assert sent == []

    def test_state_when_asked_for_as_json_then_all_that_was_desired_is_told(self) -> None:
        rows = orjson.loads(self.call("-o", "json").stdout)
        assert [(row["tenant"], row["kind"], row["name"]) for row in rows] == [tuple(each) for each in THEN]


def test_time_when_it_is_yet_to_come_then_it_is_refused() -> None:
    ended = CliRunner().invoke(replay.app, ["at", "2999-01-01T00:00:00Z"], env=ENVIRONMENT)
    assert isinstance(ended.exception, InvalidConfiguration)

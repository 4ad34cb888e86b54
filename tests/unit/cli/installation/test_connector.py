"""``gitopsctl connector apply`` interrupts a running connector for a reason only, and says why one does not run."""

from __future__ import annotations

import json
from contextlib import nullcontext

import httpx2
import pytest
from typer.testing import CliRunner

from services.cli.installation import connector
from services.cli.installation.connector import SILENT_SECONDS, Keeper
from services.common.errors import InvalidConfiguration, Retry, Unavailable
from tests.unit.fake_clock import FakeClock

DEFINITION = {"connector.class": "x"}
RUNNING = {"connector": {"state": "RUNNING"}, "tasks": [{"id": 0, "state": "RUNNING"}]}


class Connect:
    """Kafka Connect's REST API, as far as it is used."""

    def __init__(self) -> None:
        self.config: dict[str, str] | None = None
        self.status: dict[str, object] = RUNNING
        self.offsets: list[object] = [{"offset": {"lsn": 1}}]
        self.changes: list[str] = []
        self.refusal: httpx2.Response | None = None

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        path = request.url.path
        if request.method != "GET":
            self.changes.append(f"{request.method} {path}")
            if self.refusal is not None:
                return self.refusal
        if path.endswith("/status"):
            return httpx2.Response(200, json=self.status)
        if path.endswith("/offsets") and request.method == "GET":
            return httpx2.Response(200, json={"offsets": self.offsets})
        if request.method == "PUT" and path.endswith("/config"):
            self.config = json.loads(request.content) | {"name": connector.NAME}
        if self.config is None:
            return httpx2.Response(404, json={"message": "not found"})
        return httpx2.Response(200, json=self.config)


@pytest.fixture
def connect() -> Connect:
    return Connect()


@pytest.fixture
def client(connect: Connect) -> httpx2.Client:
    return httpx2.Client(base_url="http://connect", transport=httpx2.MockTransport(connect))


def test_state_when_connects_web_server_answers_before_connect_does_then_it_is_asked_again() -> None:
    early = httpx2.MockTransport(lambda _: httpx2.Response(404, text=""))
    with httpx2.Client(base_url="http://connect", transport=early) as client, pytest.raises(Retry, match="starting"):
        connector._state(client)


def test_put_when_the_connector_is_new_then_it_is_made(connect: Connect, client: httpx2.Client) -> None:
    connector._put(client, DEFINITION)
    assert connect.changes == ["PUT /connectors/gitops/config"]


def test_put_when_connect_has_it_already_then_only_what_failed_is_restarted(
    connect: Connect, client: httpx2.Client
) -> None:
    connect.config = DEFINITION | {"name": connector.NAME}
    connector._put(client, DEFINITION)
    assert connect.changes == ["POST /connectors/gitops/restart"]


@pytest.mark.parametrize(("code", "error"), [(409, Retry), (500, Retry), (400, InvalidConfiguration)])
def test_put_when_connect_refuses_then_its_message_is_passed_on(
    connect: Connect, client: httpx2.Client, code: int, error: type[Exception]
) -> None:
    connect.refusal = httpx2.Response(code, json={"message": "because"})
    with pytest.raises(error, match="because"):
        connector._put(client, DEFINITION)


def test_wait_when_the_task_failed_then_the_innermost_cause_is_told(
    connect: Connect, client: httpx2.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connector, "SETTLE_SECONDS", 0)
    trace = "ConnectException: outer\n\tat x\nCaused by: A: middle\n\tat y\nCaused by: B: no such slot\n\tat z"
    connect.status = {"connector": {"state": "RUNNING"}, "tasks": [{"state": "FAILED", "trace": trace}]}
    with pytest.raises(Unavailable, match="ConnectException: outer; Caused by: B: no such slot"):
        connector._await_running(client, timeout=5)


@pytest.mark.parametrize(
    "status", [{}, {"connector": {"state": "RUNNING"}, "tasks": []}, {"connector": {"state": "UNASSIGNED"}}]
)
def test_wait_when_nothing_runs_in_time_then_it_is_unavailable(
    connect: Connect, client: httpx2.Client, status: dict[str, object]
) -> None:
    connect.status = status
    with pytest.raises(Unavailable, match=r"still (unassigned|UNASSIGNED)"):
        connector._await_running(client, timeout=0)


def test_wait_when_connector_and_task_run_then_it_returns(client: httpx2.Client) -> None:
    connector._await_running(client, timeout=0)


@pytest.mark.parametrize("secret", ["password", "hostname", "port"])
def test_definition_when_it_needs_an_address_or_a_password_then_it_takes_it_from_the_worker(secret: str) -> None:
    definition = json.loads(connector.DEFINITION.read_text())
    assert definition[f"database.{secret}"].startswith("${env:GITOPS_")


def test_definition_when_applied_then_rows_are_looked_for_as_often_as_the_operator_says(
    connect: Connect, monkeypatch: pytest.MonkeyPatch, client: httpx2.Client
) -> None:
    monkeypatch.setattr(connector, "connect_client", lambda _: nullcontext(client))
    for environment, expected in (({}, "2"), ({"CONNECT_POLL_INTERVAL_MS": "20"}, "20")):
        result = CliRunner(env={"CONNECT_URL": "http://connect"} | environment).invoke(connector.app, ["apply"])
        assert result.exit_code == 0, result.output
        assert connect.config is not None
        assert connect.config["poll.interval.ms"] == expected


def test_keeper_when_the_task_has_failed_then_it_is_restarted(connect: Connect, client: httpx2.Client) -> None:
    connect.config = DEFINITION
    connect.status = {"connector": {"state": "RUNNING"}, "tasks": [{"state": "FAILED", "trace": "no registry"}]}
    assert Keeper(client).revived()
    assert connect.changes == ["POST /connectors/gitops/restart"]


def test_keeper_when_all_runs_then_nothing_is_touched(connect: Connect, client: httpx2.Client) -> None:
    assert not Keeper(client).revived()
    assert connect.changes == []


def test_keeper_when_the_task_runs_by_connects_word_alone_then_it_is_restarted(
    connect: Connect, client: httpx2.Client
) -> None:
    connect.config, clock = DEFINITION, FakeClock()
    keeper = Keeper(client, clock)
    told = connect.offsets
    for seconds, offsets, revived in (
        (SILENT_SECONDS, told, False),
        (SILENT_SECONDS - 1, [], False),
        (1, [], True),
        (SILENT_SECONDS - 1, [], False),
        (1, told, False),
    ):
        clock.seconds, connect.offsets = clock.seconds + seconds, offsets
        assert keeper.revived() == revived
    assert connect.changes == ["POST /connectors/gitops/restart"]


def test_keeper_when_connect_is_away_then_it_comes_back_later() -> None:
    def away(_: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError("refused")

    assert Keeper(httpx2.Client(base_url="http://connect", transport=httpx2.MockTransport(away))).revived()


def test_put_when_the_connector_was_stopped_then_it_runs_again(connect: Connect, client: httpx2.Client) -> None:
    connect.config, connect.status = DEFINITION | {"name": connector.NAME}, {"connector": {"state": "STOPPED"}}
    connector._put(client, DEFINITION)
    assert connect.changes == ["PUT /connectors/gitops/resume"]


def test_offsets_when_a_task_still_ends_then_they_are_forgotten_later(connect: Connect, client: httpx2.Client) -> None:
    connect.refusal = httpx2.Response(400, json={"message": "Connectors must be in the STOPPED state"})
    with pytest.raises(Retry, match="STOPPED"):
        connector._forget_offsets(client)


def test_resend_when_the_table_is_not_streamed_then_it_is_refused_and_those_that_are_are_named() -> None:
    with pytest.raises(InvalidConfiguration, match=r"'tenants' is no table.*public\.engine_instances"):
        connector.resend("tenants", "postgresql://nobody@localhost/none", 1)

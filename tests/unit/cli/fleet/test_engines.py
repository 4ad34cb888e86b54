"""What operators see of the fleet, and what they are told of an order."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
import yaml
from psycopg import IsolationLevel
from typer.testing import CliRunner, Result

from services.cli.fleet import (
    engine_clusters,
    engine_instances,
    engine_lifecycle,
    engine_placement,
    engine_pools,
    engines,
    fleet_orders,
)
from services.cli.fleet.fleet_orders import Undecided
from services.cli.fleet.fleet_orders import fleet as read_fleet
from services.cli.kafka import topics
from services.cli.sending import Unacknowledged
from services.common.errors import InvalidConfiguration, NoPermission, Retry, Unavailable
from services.common.messages import FleetOrder, RebalanceFleet, RebalanceInstances
from services.planner.domain.fleet.fleet import Holding
from services.planner.domain.fleet.loaded_parts import TenantHere
from services.planner.domain.fleet.rows import EngineClusterRow, EngineInstanceRow, Move
from tests.unit.planner.fleet.loaded_fleet import loaded_fleet, with_tenants
from tests.unit.planner.given import at

URL = "postgresql://gitops_owner@localhost/gitops?sslmode=disable"
ONE = EngineInstanceRow(
    "one", "argocd-1", "argocd", "north", "eu", "dedicated", "team", "canary", 7, "accepting", at(1), at(2)
)
GONE = replace(ONE, id="gone", namespace="argocd-0", state="retired")
CLUSTERS = {
    "north": EngineClusterRow("north", "eu", at(0), "active", at(0)),
    "south": EngineClusterRow("south", "", at(0), "active", at(0)),
}
EMPTIED = "'gitopsctl engines drain one' and then 'gitopsctl engines rebalance' move them"
OVERLOAD = "it carries more than 85% of its capacity, and cannot be relieved"
PARTS = ["team/shop@one", "team/web@one"]
FLEET = loaded_fleet(CLUSTERS, {"one": ONE, "gone": GONE}, {"one": Holding(3)})


@pytest.fixture(autouse=True)
def sent(monkeypatch: pytest.MonkeyPatch) -> list[FleetOrder]:
    """Orders that were sent; the database shows ``FLEET``, and a planner accepts everything."""
    orders: list[FleetOrder] = []
    for module in (engine_instances, engine_lifecycle, engine_clusters, fleet_orders):
        monkeypatch.setattr(module, "fleet", lambda *_: FLEET)
    monkeypatch.setattr(engine_placement, "parts_on", lambda *_: PARTS)
    monkeypatch.setattr(engine_pools, "overload_of", lambda *_: OVERLOAD)
    monkeypatch.setattr(fleet_orders, "load", lambda _: None)
    monkeypatch.setattr(fleet_orders, "database_time", lambda _: at(1000))
    monkeypatch.setattr(fleet_orders, "send_order", lambda _, order, __: orders.append(order))
    monkeypatch.setattr(fleet_orders, "_outcome", lambda *_: ("accepted", ""))
    return orders


def typed(*arguments: str, app: Any = engines.app) -> Result:
    return CliRunner(env={"DATABASE_OWNER_URL": URL}).invoke(app, list(arguments))


def test_clusters_when_listed_then_their_instances_are_counted_that_are_not_retired() -> None:
    rows = json.loads(typed("list", "-o", "json", app=engine_clusters.app).stdout)
    assert [(each["id"], each["region"], each["instances"]) for each in rows] == [("north", "eu", 1), ("south", "", 0)]


def test_order_when_given_then_its_time_is_the_databases_whatever_the_clock_of_who_gives_it(
    sent: list[FleetOrder],
) -> None:
    typed("drain", "one")
    assert [each.ordered_at for each in sent] == [at(1000)]


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (("retire", "one"), 1, f"one: would be refused, engine instance one still has tenants: 3; {EMPTIED}\n"),
        (
            ("drain", "one"),
            0,
            "one: would be accepted, its tenants stay on it (3) until 'gitopsctl engines rebalance' moves them; no "
            "instance of workspace team of ring canary accepts tenants now\n",
        ),
        (("undrain", "one"), 0, "one: would be unchanged, it is accepting\n"),
    ],
)
def test_order_when_only_tried_then_its_rules_answer_and_nothing_is_sent(
    sent: list[FleetOrder], arguments: tuple[str, ...], code: int, told: str
) -> None:
    tried = typed(*arguments, "--dry-run")
    assert (tried.exit_code, tried.stderr if code else tried.stdout, sent) == (code, told, [])


@pytest.mark.parametrize("tried", [(), ("--dry-run",)], ids=["given", "tried"])
@pytest.mark.parametrize(("read", "output"), [(json.loads, "json"), (yaml.safe_load, "yaml")])
def test_order_when_a_program_gives_it_then_it_reads_what_was_decided(
    sent: list[FleetOrder], read: Callable[[str], Any], output: str, tried: tuple[str, ...]
) -> None:
    given = typed("undrain", "one", "-o", output, *tried)
    decided = (
        {"outcome": "unchanged", "message": "it is accepting"} if tried else {"outcome": "accepted", "message": ""}
    )
    assert (given.exit_code, given.stderr, read(given.stdout)) == (0, "", decided)
    assert len(sent) == (0 if tried else 1)


def test_cluster_when_a_program_adds_it_then_what_is_said_of_its_topic_is_not_in_the_document(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def make_topics(
        _topics: object, _timeout: float, _copies: int, say: Callable[[str], None], *, dry_run: bool
    ) -> None:
        say(f"a topic, {dry_run}")

    monkeypatch.setattr(topics, "make_topics", make_topics)
    monkeypatch.setattr(topics, "grant_rights", lambda _rights, _timeout, say, *, keep: say("rights"))
    given = typed("add", "east", "-o", "json", app=engine_clusters.app)
    assert json.loads(given.stdout) == {"outcome": "accepted", "message": ""}
    assert given.stderr == "a topic, False\nrights\n"
    people = typed("add", "east", app=engine_clusters.app)
    assert people.stdout == "a topic, False\nrights\neast: accepted\n"


@pytest.mark.usefixtures("sent")
def test_order_when_refused_then_a_program_reads_why_and_people_see_it_on_stderr(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fleet_orders, "_outcome", lambda *_: ("refused", "it has tenants"))
    given = typed("retire", "one", "-o", "json")
    assert json.loads(given.stdout) == {"outcome": "refused", "message": "it has tenants"}
    assert (given.exit_code, given.stderr) == (1, "one: refused, it has tenants\n")


@pytest.mark.parametrize(
    ("command", "seconds"),
    [(("drain", "one"), "0"), (("drain", "one"), "-1"), (("list",), "0"), (("wait", "one"), "-1")],
)
def test_command_when_it_is_to_wait_for_no_time_then_it_is_refused_and_nothing_is_sent(
    sent: list[FleetOrder], command: tuple[str, ...], seconds: str
) -> None:
    refused = typed(*command, "--timeout", seconds)
    assert (refused.exit_code, sent) == (2, [])
    assert "greater than or equal to" in refused.stderr


def test_order_when_no_planner_decides_in_time_then_that_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def undecided(*_: object) -> tuple[str, str]:
        raise Retry("the order is sent")

    monkeypatch.setattr(fleet_orders, "_outcome", undecided)
    outcome = typed("drain", "one", "--timeout", "0.1")
    assert isinstance(outcome.exception, Undecided)
    assert "planner did not answer within 0.1 s: the order is sent" in str(outcome.exception)
    assert outcome.stdout == ""


def test_order_when_no_planner_decides_in_time_then_a_program_reads_that_and_by_which_id_it_is_found_later(
    sent: list[FleetOrder], monkeypatch: pytest.MonkeyPatch
) -> None:
    def undecided(*_: object) -> tuple[str, str]:
        raise Retry("the order is sent")

    monkeypatch.setattr(fleet_orders, "_outcome", undecided)
    given = typed("drain", "one", "--timeout", "0.1", "-o", "json")
    assert isinstance(given.exception, Undecided)
    (order,) = sent
    assert json.loads(given.stdout) == {"outcome": "undecided", "message": str(given.exception), "id": str(order.id)}
    assert str(order.id) in str(given.exception)


@pytest.mark.parametrize("error", [NoPermission("a:1: login refused"), InvalidConfiguration("no table")])
def test_order_when_it_is_sent_and_the_database_refuses_to_show_its_decision_then_it_is_undecided_and_its_id_is_told(
    sent: list[FleetOrder], monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def refuse(*_: object) -> tuple[str, str]:
        raise error

    monkeypatch.setattr(fleet_orders, "_outcome", refuse)
    given = typed("drain", "one", "-o", "json")
    assert isinstance(given.exception, Undecided)
    (order,) = sent
    assert str(given.exception).startswith(f"the order is sent, but its decision cannot be read: {error}; ")
    assert json.loads(given.stdout)["id"] == str(order.id)


def test_order_when_its_delivery_is_uncertain_then_it_is_undecided_and_told_that_it_may_have_been_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def lose(*_: object) -> None:
        raise Unacknowledged("Local: Message timed out")

    monkeypatch.setattr(fleet_orders, "send_order", lose)
    given = typed("drain", "one", "-o", "yaml")
    assert isinstance(given.exception, Undecided)
    assert str(given.exception).startswith("the order may have been sent: Local: Message timed out; ")
    assert yaml.safe_load(given.stdout)["outcome"] == "undecided"


def test_order_when_it_is_certain_that_it_was_not_sent_then_it_has_no_document(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> None:
        raise Unavailable("Kafka at a:1 did not answer within 10 s; nothing was sent")

    monkeypatch.setattr(fleet_orders, "send_order", fail)
    given = typed("drain", "one", "-o", "json")
    assert (type(given.exception), given.stdout) == (Unavailable, "")


CROWDED = with_tenants(
    replace(FLEET, instances={name: replace(ONE, id=name, dedicated_to="", capacity=100) for name in ("one", "two")}),
    {("local", name): TenantHere(UUID(int=n), 0, "one", 1, load=10) for n, name in enumerate("abcd")},
)


def test_rebalance_when_only_tried_then_it_shows_who_would_go_where_and_nothing_is_sent(
    sent: list[FleetOrder], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet_orders, "fleet", lambda *_: CROWDED)
    tried = typed("rebalance", "--dry-run")
    words = [line.split() for line in tried.stdout.splitlines()]
    assert words[0] == ["tenant", "load", "from", "to", "then", "at", "step"]
    assert [row[1:] for row in words[1:3]] == [["1.0", "one", "two", "ordered"]] * 2
    assert words[3:8] == [
        [],
        ["instance", "state", "capacity", "load", "now", "load", "then"],
        ["one", "accepting", "100", "4.0", "2.0"],
        ["two", "accepting", "100", "0.0", "2.0"],
        [],
    ]
    assert tried.stdout.endswith("fleet: would be accepted, tenants that move: 2 of 4\n")
    assert sent == []


def test_rebalance_when_instances_are_named_then_the_order_names_them_and_a_dry_run_shows_what_it_would_do(
    sent: list[FleetOrder], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet_orders, "fleet", lambda *_: CROWDED)
    plans = {
        name: json.loads(typed("rebalance", "--from", name, "--dry-run", "-o", "json").stdout)
        for name in ("one", "two")
    }
    assert [(each["from"], each["to"]) for each in plans["one"]["tenants"]] == [("one", "two")] * 2
    assert (plans["two"]["outcome"], plans["two"]["tenants"]) == ("unchanged", [])
    refused = typed("rebalance", "--from", "nine", "--dry-run")
    assert (refused.exit_code, refused.stderr) == (
        1,
        "fleet: would be refused, there is no engine instance 'nine'; 'gitopsctl engines list' shows them\n",
    )
    assert sent == []
    assert typed("rebalance", "--from", "one", "--from", "two", "--from", "one").stdout == "fleet: accepted\n"
    assert [each.order for each in sent] == [RebalanceInstances(("one", "two"))]


def test_rebalance_when_a_program_tries_it_then_it_reads_the_decision_and_who_would_go_where(
    sent: list[FleetOrder], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet_orders, "fleet", lambda *_: CROWDED)
    tried = typed("rebalance", "--dry-run", "-o", "json")
    plan = json.loads(tried.stdout)
    assert (plan["outcome"], plan["message"]) == ("accepted", "tenants that move: 2 of 4")
    assert [(each["from"], each["to"], each["load"]) for each in plan["tenants"]] == [("one", "two", 1.0)] * 2
    assert [(each["instance"], each["before"], each["after"]) for each in plan["instances"]] == [
        ("one", 4.0, 2.0),
        ("two", 0.0, 2.0),
    ]
    assert yaml.safe_load(typed("rebalance", "--dry-run", "-o", "yaml").stdout) == plan
    assert sent == []


def test_rebalance_when_a_program_tries_it_and_nothing_would_change_then_nobody_is_listed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fleet_orders, "fleet", lambda *_: with_tenants(CROWDED, {}))
    plan = json.loads(typed("rebalance", "--dry-run", "-o", "json").stdout)
    assert (plan["outcome"], plan["tenants"], plan["instances"]) == ("unchanged", [], [])


MOVE = Move(
    UUID(int=9), UUID(int=99), "local", "gone", 0, "two", "one", "adopting", False, "{}", "", "", at(0), at(0), None
)
WITHOUT_TENANT = {
    "a former tenant": MOVE,
    "a part without deployments": replace(MOVE, tenant_id=UUID(int=0), namespace="a@two", step="preparing"),
}


@pytest.mark.parametrize("move", WITHOUT_TENANT.values(), ids=WITHOUT_TENANT)
def test_rebalance_when_tried_while_what_has_no_load_any_more_is_moved_then_it_is_shown_with_none(
    monkeypatch: pytest.MonkeyPatch, move: Move
) -> None:
    monkeypatch.setattr(fleet_orders, "fleet", lambda *_: replace(CROWDED, moves={move.tenant_id: move}))
    plan = json.loads(typed("rebalance", "--dry-run", "-o", "json").stdout)
    assert plan["outcome"] == "accepted"
    assert [each for each in plan["tenants"] if each["step"] == move.step] == [
        {"tenant": f"local/{move.namespace}", "load": 0.0, "from": "two", "to": "one", "step": move.step}
    ]


def test_fleet_when_an_order_is_tried_on_it_then_moves_and_tenants_are_read_in_one_snapshot(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    connection = SimpleNamespace(isolation_level=None, read_only=None)
    read: list[tuple[object, object]] = []

    def noted(found: Any) -> Callable[..., Any]:
        def load(*_: object, **__: object) -> Any:
            read.append((connection.isolation_level, connection.read_only))
            return found

        return load

    monkeypatch.setattr(fleet_orders, "connected", lambda _: nullcontext(connection))
    monkeypatch.setattr(fleet_orders, "load_counted_fleet", noted(with_tenants(CROWDED, {})))
    monkeypatch.setattr(fleet_orders, "load_all_tenants", noted(CROWDED.tenants))
    assert read_fleet(URL, RebalanceFleet()) == CROWDED
    assert read == [(IsolationLevel.REPEATABLE_READ, True)] * 2


def test_rebalance_when_the_fleet_is_even_then_that_is_told_and_no_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet_orders, "fleet", lambda *_: with_tenants(CROWDED, {}))
    told = "fleet: would be unchanged, each instance carries what it should\n"
    assert typed("rebalance", "--dry-run").stdout == told


def test_rebalance_when_ordered_then_the_planner_decides(sent: list[FleetOrder]) -> None:
    assert typed("rebalance").stdout == "fleet: accepted\n"
    assert [each.order for each in sent] == [RebalanceFleet()]


def test_operator_when_its_user_has_no_name_then_its_number_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def nameless() -> str:
        raise OSError("no such user")

    monkeypatch.setattr(fleet_orders.getpass, "getuser", nameless)
    monkeypatch.setattr(fleet_orders.os, "getuid", lambda: 65532)
    assert fleet_orders.operator().partition("@")[0] == "65532"

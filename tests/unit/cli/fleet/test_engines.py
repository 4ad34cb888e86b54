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

from services.cli.fleet import engine_clusters, engine_placement, engine_pools, engines, fleet_orders
from services.cli.fleet.fleet_orders import fleet as read_fleet
from services.cli.fleet.fleet_view import FleetSnapshot
from services.cli.kafka import topics
from services.common.errors import InvalidConfiguration, Retry, Unavailable
from services.common.messages import AddEngineInstance, FleetOrder, RebalanceFleet, RetireEngineInstance
from services.planner.domain.fleet.fleet import Fleet, Holding, TenantHere
from services.planner.domain.fleet.rollouts.rollout_rows import EngineSample
from services.planner.domain.fleet.rows import (
    EngineClusterRow,
    EngineInstanceRow,
    Installation,
    InstanceHealth,
    InstanceState,
    Move,
)
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
FLEET = Fleet(CLUSTERS, {"one": ONE, "gone": GONE}, {"one": Holding(3)}, frozenset({"argocd"}))


@pytest.fixture(autouse=True)
def sent(monkeypatch: pytest.MonkeyPatch) -> list[FleetOrder]:
    """Orders that were sent; the database shows ``FLEET``, and a planner accepts everything."""
    orders: list[FleetOrder] = []
    for module in (engines, engine_clusters, fleet_orders):
        monkeypatch.setattr(module, "fleet", lambda *_: FLEET)
    monkeypatch.setattr(engine_placement, "parts_on", lambda *_: PARTS)
    monkeypatch.setattr(engine_pools, "overload_of", lambda *_: OVERLOAD)
    monkeypatch.setattr(fleet_orders, "load", lambda _: None)
    monkeypatch.setattr(fleet_orders, "database_time", lambda _: at(1000))
    monkeypatch.setattr(fleet_orders, "send_order", lambda _, order: orders.append(order))
    monkeypatch.setattr(fleet_orders, "_outcome", lambda *_: ("accepted", ""))
    return orders


def typed(*arguments: str, app: Any = engines.app) -> Result:
    return CliRunner(env={"DATABASE_OWNER_URL": URL}).invoke(app, list(arguments))


def test_instances_when_listed_then_tenants_are_counted_and_retired_ones_are_shown_if_asked_for() -> None:
    (row,) = json.loads(typed("list", "-o", "json").stdout)
    assert (row["id"], row["cluster"], row["dedicatedTo"], row["tenants"]) == ("one", "north", "team", 3)
    assert [each["id"] for each in yaml.safe_load(typed("list", "--retired", "-o", "yaml").stdout)] == ["gone", "one"]
    assert typed("list").stdout.splitlines()[1].split()[:3] == ["one", "north", "argocd-1"]


def test_instances_when_watched_then_they_are_shown_again_until_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = iter(map(FleetSnapshot, [FLEET, replace(FLEET, instances={"one": replace(ONE, state="draining")})]))

    def look(_: str) -> FleetSnapshot:
        try:
            return next(looks)
        except StopIteration:
            raise KeyboardInterrupt from None

    monkeypatch.setattr(engines, "load_snapshot", look)
    monkeypatch.setattr(engines, "LOOK_EVERY_SECONDS", 0)
    told = typed("list", "--watch").stdout
    assert told.count("instance  ring") == 2
    assert told.index("accepting") < told.index("draining")


def watched_by_program(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> str:
    """What it reads: the instance is as before at the second look, then it drains, then it is retired."""
    looks = iter([FLEET, FLEET, *(replace(FLEET, instances={**FLEET.instances, "one": each}) for each in ENDING)])

    def look(_: str) -> Fleet:
        try:
            return next(looks)
        except StopIteration:
            raise KeyboardInterrupt from None

    monkeypatch.setattr(engines, "fleet", look)
    monkeypatch.setattr(engines, "LOOK_EVERY_SECONDS", 0)
    return typed(*arguments, "--watch").stdout


ENDING = (replace(ONE, state="draining"), replace(ONE, state="retired"))
READ = [("one", "accepting"), ("one", "draining"), ("one", "retired")]
RETIRED_BEFORE = ("gone", "retired")


@pytest.mark.parametrize(("retired", "read"), [((), READ), (("--retired",), [RETIRED_BEFORE, *READ])], ids=["", "all"])
def test_instances_when_watched_by_a_program_then_each_is_a_line_and_another_whenever_it_changes(
    monkeypatch: pytest.MonkeyPatch, retired: tuple[str, ...], read: list[tuple[str, str]]
) -> None:
    rows = [json.loads(line) for line in watched_by_program(monkeypatch, "list", "-o", "json", *retired).splitlines()]
    assert [(row["id"], row["state"]) for row in rows] == read


def test_instances_when_watched_as_yaml_then_each_change_is_a_document(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = yaml.safe_load_all(watched_by_program(monkeypatch, "list", "-o", "yaml"))
    assert [(row["id"], row["state"]) for row in rows] == READ


def test_instance_when_shown_then_all_of_it_is() -> None:
    (row,) = json.loads(typed("show", "one", "-o", "json").stdout)
    assert (row["orderedAt"], row["overload"], row["parts"]) == ("2026-05-04T12:00:02Z", OVERLOAD, PARTS)
    lines = [line.split() for line in typed("show", "one").stdout.splitlines()]
    assert ["orderedAt", "2026-05-04", "12:00:02"] in lines
    assert ["parts", "team/shop@one,", "team/web@one"] in lines
    assert isinstance(typed("show", "two").exception, InvalidConfiguration)


def test_instance_when_a_rollout_keeps_tenants_from_it_then_it_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "fleet", lambda *_: replace(FLEET, closed=frozenset({"one"})))
    rows = json.loads(typed("list", "--retired", "-o", "json").stdout)
    assert {row["id"]: row["closed"] for row in rows} == {"gone": False, "one": True}


COUNTED = ("countedAt", "applications", "late", "failedSyncs", "comparisonErrors", "failingTenants")
REPORTED = InstanceHealth("one", 0, "Healthy", "", "", "3.2.11", at(60), at(1), at(60), at(240))
SAMPLE = EngineSample("one", at(60), 2410, 3, 1, 4, 30_000, None, 12, 2)


def look_at_counts(monkeypatch: pytest.MonkeyPatch, health: InstanceHealth) -> None:
    """The database shows an instance that is so, and what was counted for its report of second 60."""
    samples = {("one", at(60)): SAMPLE}
    monkeypatch.setattr(engines, "fleet", lambda *_: replace(FLEET, health={"one": health}))
    monkeypatch.setattr(engines, "connected", lambda _: nullcontext())
    monkeypatch.setattr(engines, "load_sample", lambda _, *key: samples.get(key))


def test_instance_when_its_agent_has_counted_then_it_is_shown_how_many_applications_are_late_or_fail(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    look_at_counts(monkeypatch, REPORTED)
    (row,) = json.loads(typed("show", "one", "-o", "json").stdout)
    assert [row[name] for name in COUNTED] == ["2026-05-04T12:01:00Z", 2410, 3, 1, 4, 2]
    assert yaml.safe_load(typed("show", "one", "-o", "yaml").stdout) == [row]
    lines = [line.split() for line in typed("show", "one").stdout.splitlines()]
    assert ["countedAt", "2026-05-04", "12:01:00"] in lines
    assert ["late", "3"] in lines


NOT_COUNTED = {
    "its agent is silent": replace(REPORTED, health="Unknown", reason="AgentSilent", due_at=None),
    "its agent tells of health alone": replace(REPORTED, reported_at=at(120)),
}


@pytest.mark.parametrize("health", NOT_COUNTED.values(), ids=NOT_COUNTED)
def test_instance_when_its_agent_counts_nothing_any_more_then_no_count_of_before_is_shown(
    monkeypatch: pytest.MonkeyPatch, health: InstanceHealth
) -> None:
    look_at_counts(monkeypatch, health)
    (row,) = json.loads(typed("show", "one", "-o", "json").stdout)
    assert [row[name] for name in COUNTED] == [None] * len(COUNTED)
    assert ["late", "-"] in [line.split() for line in typed("show", "one").stdout.splitlines()]


def test_instance_when_watched_then_it_is_shown_again_when_it_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [json.loads(line) for line in watched_by_program(monkeypatch, "show", "one", "-o", "json").splitlines()]
    assert [(row["state"], row["overload"]) for row in rows] == [(state, OVERLOAD) for _, state in READ]
    told = watched_by_program(monkeypatch, "show", "one")
    assert told.index("accepting") < told.index("draining") < told.index("retired")


def waited(monkeypatch: pytest.MonkeyPatch, *looks: EngineInstanceRow) -> Result:
    """What it is like to wait for the instance, which is so at one look after the other, and then for no longer."""
    shown = iter(looks)
    monkeypatch.setattr(engines, "fleet", lambda _: replace(FLEET, instances={"one": next(shown)}))
    return typed("wait", "one", "--timeout", "0" if len(looks) == 1 else "30")


UNREADY = replace(ONE, state="provisioning")


def test_instance_when_waited_for_then_that_ends_when_it_is_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    assert waited(monkeypatch, ONE).exit_code == 0
    failed = replace(UNREADY, state="failed")
    assert waited(monkeypatch, UNREADY, failed, replace(ONE, state="full")).exit_code == 0


@pytest.mark.parametrize("state", ["draining", "drained"])
def test_instance_when_waited_for_and_it_is_to_be_retired_then_it_is_refused_with_what_has_it_take_tenants_again(
    monkeypatch: pytest.MonkeyPatch, state: InstanceState
) -> None:
    leaving = waited(monkeypatch, replace(ONE, state=state))
    assert isinstance(leaving.exception, InvalidConfiguration)
    assert str(leaving.exception) == (
        f"engine instance one is {state}: 'gitopsctl engines undrain one' has it take tenants again"
    )


def test_instance_when_waited_for_while_it_is_installed_then_what_its_provisioner_tells_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = Installation("one", 3, "Applying", "", "its repo server is not ready", at(5))
    installing = replace(FLEET, instances={"one": UNREADY}, installations={"one": told})
    monkeypatch.setattr(engines, "fleet", lambda _: installing)
    late = typed("wait", "one", "--timeout", "0")
    assert str(late.exception).endswith("it is provisioning: its repo server is not ready")


def test_instance_when_waited_for_in_vain_then_what_it_lacks_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    late = waited(monkeypatch, UNREADY)
    assert isinstance(late.exception, Unavailable)
    assert str(late.exception) == (
        "engine instance one is not ready after 0 s: it is provisioning: "
        "no agent of engine cluster north has told how it is"
    )
    failed = waited(monkeypatch, replace(UNREADY, state="failed", state_message="it was not ready by noon"))
    assert str(failed.exception).endswith("it is failed: it was not ready by noon")
    retired = waited(monkeypatch, replace(ONE, state="retired"))
    assert str(retired.exception) == "engine instance one is retired"


def test_clusters_when_listed_then_their_instances_are_counted_that_are_not_retired() -> None:
    rows = json.loads(typed("list", "-o", "json", app=engine_clusters.app).stdout)
    assert [(each["id"], each["region"], each["instances"]) for each in rows] == [("north", "eu", 1), ("south", "", 0)]


def test_instance_when_added_without_a_namespace_then_its_id_is_that(sent: list[FleetOrder]) -> None:
    assert typed("add", "two", "--capacity", "9").stdout == "two: accepted\n"
    assert sent[0].order == AddEngineInstance("two", "default", "two", "argocd", "shared", "", "general", 9)


@pytest.mark.parametrize("capacity", ["0", "99999999999999999999"])
def test_instance_when_its_capacity_is_out_of_bounds_then_that_is_told_and_nothing_is_sent(
    sent: list[FleetOrder], capacity: str
) -> None:
    added = typed("add", "two", "--capacity", capacity)
    assert (added.exit_code, sent) == (2, [])
    assert "'--capacity'" in added.stderr


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
            "one: would be accepted, its tenants stay on it (3) until 'gitopsctl engines rebalance' moves them\n",
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
    monkeypatch.setattr(topics, "grant_rights", lambda _rights, _timeout, say: say("rights"))
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


@pytest.mark.parametrize("answer", ["y", "n"])
def test_instance_when_retired_as_lost_then_it_is_asked_whether_its_engine_is_stopped_for_good(
    sent: list[FleetOrder], answer: str
) -> None:
    """Nobody can see that, and an engine that runs would go on to deploy."""
    runner = CliRunner(env={"DATABASE_OWNER_URL": URL})
    given = runner.invoke(engines.app, ["retire", "one", "--lost"], input=f"{answer}\n")
    assert "Is it certain that the engine of one is stopped, for good? [y/N]" in given.output
    assert (given.exit_code, [each.order for each in sent]) == (
        (0, [RetireEngineInstance("one", is_lost=True)]) if answer == "y" else (1, [])
    )


def test_instance_when_retired_as_lost_and_said_to_be_stopped_then_nothing_is_asked(sent: list[FleetOrder]) -> None:
    assert typed("retire", "one", "--lost", "--stopped").stdout == "one: accepted\n"
    assert [each.order for each in sent] == [RetireEngineInstance("one", is_lost=True)]


def test_order_when_no_planner_decides_in_time_then_that_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def undecided(*_: object) -> tuple[str, str]:
        raise Retry("the order is sent")

    monkeypatch.setattr(fleet_orders, "_outcome", undecided)
    outcome = typed("drain", "one", "--timeout", "0.1")
    assert isinstance(outcome.exception, Unavailable)
    assert "planner did not answer within 0.1 s: the order is sent" in str(outcome.exception)


CROWDED = replace(
    FLEET,
    instances={name: replace(ONE, id=name, dedicated_to="", capacity=100) for name in ("one", "two")},
    tenants={("local", name): TenantHere(UUID(int=n), 0, "one", 1, load=10) for n, name in enumerate("abcd")},
)


def test_rebalance_when_only_tried_then_it_shows_who_would_go_where_and_nothing_is_sent(
    sent: list[FleetOrder], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet_orders, "fleet", lambda *_: CROWDED)
    tried = typed("rebalance", "--dry-run")
    words = [line.split() for line in tried.stdout.splitlines()]
    assert words[0] == ["tenant", "load", "from", "to", "step"]
    assert [row[1:] for row in words[1:3]] == [["1.0", "one", "two", "ordered"]] * 2
    assert words[3:6] == [
        ["instance", "state", "capacity", "load", "then"],
        ["one", "accepting", "100", "4.0", "2.0"],
        ["two", "accepting", "100", "0.0", "2.0"],
    ]
    assert tried.stdout.endswith("fleet: would be accepted, tenants that move: 2 of 4\n")
    assert sent == []


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
    monkeypatch.setattr(fleet_orders, "fleet", lambda *_: replace(CROWDED, tenants={}))
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
    monkeypatch.setattr(fleet_orders, "load_counted_fleet", noted(replace(CROWDED, tenants={})))
    monkeypatch.setattr(fleet_orders, "load_all_tenants", noted(CROWDED.tenants))
    assert read_fleet(URL, RebalanceFleet()) == CROWDED
    assert read == [(IsolationLevel.REPEATABLE_READ, True)] * 2


def test_rebalance_when_the_fleet_is_even_then_that_is_told_and_no_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet_orders, "fleet", lambda *_: replace(CROWDED, tenants={}))
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

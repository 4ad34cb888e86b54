"""Rows of remediations in PostgreSQL: what is due, what two planners write of one, and what operators are shown."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from typer.testing import CliRunner

from services.cli.fleet import engines
from services.common.messages import REMEDY, Applied, EngineHealth, Failed, MoveTenant, Observation
from services.planner.database.move_queries import is_move_due
from services.planner.database.remedy_queries import count_remediations, is_remedy_due
from services.planner.database.session import DatabaseSession
from services.planner.domain.changes import BatchChanges
from services.planner.domain.events import Event, FleetDue, RemediesDue
from services.planner.domain.fleet.remediation.remediation_rows import Remediation
from services.planner.domain.policy import Policy, RemedyPolicy
from services.planner.engines.available import ENGINES
from services.planner.pipeline.batch_planning import plan_batch
from tests.component.conftest import Database
from tests.component.fleet import add_instance
from tests.component.planner.test_engine_health import rows
from tests.component.planner.test_fleet import ordered
from tests.unit.planner.given import NAMESPACE, WORKSPACE, at, changed

POLICY = Policy(
    remedies=RemedyPolicy(
        after=timedelta(seconds=10),
        cool_down=timedelta(seconds=100),
        replace_after=timedelta(seconds=50),
        recovered_after=timedelta(seconds=300),
    )
)
ORDERS = "SELECT engine_instance_id, manifest::json->>'remedy' FROM engine_resources WHERE kind = 'Remedy'"
AUDIT = "SELECT message FROM audit_records WHERE kind = 'Remediation' ORDER BY created_at"
Sessions = tuple[DatabaseSession, DatabaseSession]


@pytest.fixture
def sessions(database: Database) -> Iterator[Sessions]:
    """Of the planner that decides on the fleet, and of one that agents' reports come to; there are four instances."""
    with psycopg.connect(database.owner_url) as owner:
        for number in range(4):
            add_instance(owner, f"i{number}", f"argocd-{number}")
    with ExitStack() as closing_all:
        first, second = (
            closing_all.enter_context(closing(DatabaseSession(database.planner_url, ENGINES))) for _ in range(2)
        )
        yield first, second


def planned(session: DatabaseSession, second: int, *events: Event) -> BatchChanges:
    return plan_batch(events, session, POLICY, at(second))


def take(session: DatabaseSession, second: int, *events: Event) -> None:
    session.save_changes(planned(session, second, *events), ())


def tell(session: DatabaseSession, second: int, health: str, reason: str = "", instance: str = "i0") -> None:
    event = EngineHealth(health, reason, "why" if reason else "", "3.2.11", at(second))
    take(session, second, Event(Observation("", "", instance, "", "", at(second), event), 7, ""))


def look(session: DatabaseSession, second: int) -> Remediation:
    """What the row of the first instance is then; it must have been due."""
    assert is_due(session, second)
    take(session, second, Event(RemediesDue(), 0, ""))
    return session.fleet_reader.load_remediations()["i0"]


def is_due(session: DatabaseSession, second: int, *, is_on: bool = True) -> bool:
    with session.connection() as connection:
        return is_remedy_due(connection, at(second), is_on=is_on)


def answer(session: DatabaseSession, row: Remediation, outcome: Applied | Failed, second: int) -> None:
    observation = Observation("", "", row.engine_instance_id, REMEDY, str(row.number), at(second), outcome)
    take(session, second, Event(observation, 7, ""))


def have_installed(database: Database) -> None:
    """A provisioner has installed the first instance."""
    with psycopg.connect(database.owner_url) as owner:
        owner.execute("UPDATE engine_instances SET wanted_version = '3.2.11' WHERE id = 'i0'")


def have_added(database: Database) -> None:
    """What was ordered in the place of the first instance takes tenants by now."""
    with psycopg.connect(database.owner_url) as owner:
        owner.execute("UPDATE engine_instances SET state = 'accepting' WHERE id LIKE '%-general-1'")


def shown(database: Database, *arguments: str) -> list[dict[str, Any]]:
    environment = {"DATABASE_OWNER_URL": database.owner_url}
    result = CliRunner(env=environment).invoke(engines.app, [*arguments, "-o", "json"])
    assert result.exit_code == 0, result.output
    found: list[dict[str, Any]] = json.loads(result.stdout)
    return found


def test_instance_when_it_is_well_before_its_first_remedy_then_that_has_to_wait_anew_when_it_is_ill_again(
    sessions: Sessions, database: Database
) -> None:
    fleet, reports = sessions
    tell(reports, 1000, "Down", "ControllerNotReady")
    begins_at = look(fleet, 1001).due_at
    assert begins_at is not None
    tell(reports, 1003, "Healthy")
    assert look(fleet, 1004).state == "well"
    tell(reports, 1007, "Down", "ControllerNotReady")
    row = look(fleet, 1008)
    assert (row.state, row.rung) == ("waiting", "")
    assert row.due_at is not None
    assert row.due_at - begins_at == timedelta(seconds=7)


def test_instance_when_it_is_ill_then_it_is_looked_at_when_the_next_remedy_is_due_and_only_then(
    sessions: Sessions, database: Database
) -> None:
    fleet, reports = sessions
    assert not is_due(fleet, 1000)
    tell(reports, 1000, "Down", "ControllerNotReady")
    assert look(fleet, 1001).state == "waiting"
    assert not is_due(fleet, 1009)
    assert [look(fleet, 1010).rung for _ in range(2)] == ["Cordon", "RestartController"]
    assert rows(database, ORDERS) == [("i0", "RestartController")]
    assert not is_due(fleet, 1076)
    assert look(fleet, 1077).rung == "Evacuate"
    assert rows(database, ORDERS) == []
    assert [look(fleet, 1097).rung for _ in range(2)] == ["ReapplyConfiguration", "Replace"]
    with fleet.connection() as connection:
        counted = count_remediations(connection)
    assert counted == {"waiting": 0, "held": 0, "acting": 0, "recovering": 0, "exhausted": 1}


def test_instance_when_it_was_never_ready_then_it_is_not_looked_at_however_ill_it_is(
    sessions: Sessions, database: Database
) -> None:
    fleet, reports = sessions
    with psycopg.connect(database.owner_url) as owner:
        owner.execute("UPDATE engine_instances SET wanted_version = '3.2.11', state = 'provisioning' WHERE id = 'i0'")
    tell(reports, 1000, "Down", "ControllerNotReady")
    assert not is_due(fleet, 9999)


def test_instance_when_somebody_has_to_renew_its_certificate_then_it_is_not_looked_at(sessions: Sessions) -> None:
    fleet, reports = sessions
    tell(reports, 1000, "Degraded", "CertificateExpiring")
    assert not is_due(fleet, 9999)
    tell(reports, 9999, "Degraded", "OtherVersion")
    assert is_due(fleet, 9999)


def test_remedy_when_its_agent_tells_that_it_cannot_be_done_then_the_next_one_is_due_at_once(
    sessions: Sessions, database: Database
) -> None:
    fleet, reports = sessions
    tell(reports, 1000, "Degraded", "Restarting")
    row = look(fleet, 1010)
    answer(reports, row, Applied(""), 1011)
    assert not is_due(fleet, 1012)
    answer(reports, row, Failed("", permanent=True, message="no pod of it is to be seen"), 1013)
    (listed,) = shown(database, "remedies")
    assert (listed["outcome"], listed["outcomeMessage"]) == ("skipped", "no pod of it is to be seen")
    assert [look(fleet, 1014).rung for _ in range(2)] == ["ReapplyConfiguration", "Cordon"]
    assert rows(database, ORDERS) == []
    assert not is_due(fleet, 1015)


@pytest.mark.parametrize("is_told", [True, False])
def test_remedy_when_it_was_held_for_long_then_it_is_ordered_anew_unless_its_agent_has_told_of_it_meanwhile(
    sessions: Sessions, database: Database, *, is_told: bool
) -> None:
    fleet, reports = sessions
    tell(reports, 1000, "Down", "ControllerNotReady")
    _, first = (look(fleet, 1010) for _ in range(2))
    tell(reports, 1020, "Degraded", "ApiSlow", "i1")
    assert (look(fleet, 1021).state, rows(database, ORDERS)) == ("held", [])
    if is_told:
        answer(reports, first, Applied(""), 1022)
    tell(reports, 1500, "Healthy", instance="i1")
    after = look(fleet, 1501)
    assert after.rung == ("Evacuate" if is_told else "RestartController")
    assert rows(database, ORDERS) == ([] if is_told else [("i0", "RestartController")])
    assert after.remedies == ("Cordon", "RestartController", *(["Evacuate"] if is_told else []))
    (listed, *_) = shown(database, "remedies")
    assert listed["tried"] == [*after.remedies]


def test_instance_when_its_cluster_was_out_of_reach_then_it_is_replaced_only_a_while_after_it_can_be_reached_again(
    sessions: Sessions, database: Database
) -> None:
    fleet, reports = sessions
    have_installed(database)
    tell(reports, 1000, "Down", "ApiFailing")
    for second in (1010, 1077, 1097):
        row = look(fleet, second)
    assert (row.rung, row.state) == ("Replace", "exhausted")
    tell(reports, 2000, "Down", "SomethingNew")
    assert [look(fleet, second).state for second in (2001, 2021, 2041)] == ["waiting"] * 3
    state = "SELECT state FROM engine_instances WHERE id = 'i0'"
    assert (is_due(fleet, 2049), rows(database, state)) == (False, [("accepting",)])
    assert look(fleet, 2050).state == "exhausted"
    assert rows(database, state) == [("accepting",)]
    have_added(database)
    look(fleet, 2070)
    assert rows(database, state) == [("retired",)]


def test_instance_when_a_provisioner_has_installed_it_then_it_is_told_to_apply_it_anew_and_then_it_is_replaced(
    sessions: Sessions, database: Database
) -> None:
    fleet, reports = sessions
    have_installed(database)
    tell(reports, 1000, "Down", "NotAccepted")
    assert [look(fleet, 1010).rung for _ in range(2)] == ["Cordon", "ReapplyConfiguration"]
    anew = "SELECT id, reapply_ordered_at FROM engine_instances WHERE reapply_ordered_at IS NOT NULL"
    assert rows(database, anew) == [("i0", at(1010))]
    assert not is_due(fleet, 1143)
    assert look(fleet, 1144).rung == "Evacuate"
    added = "SELECT state, wanted_version FROM engine_instances WHERE id LIKE '%-general-1'"
    assert rows(database, added) == [("provisioning", "3.2.11")]
    assert [look(fleet, second).state for second in (1164, 1213)] == ["waiting", "waiting"]
    replaced = look(fleet, 1214)
    assert (replaced.rung, replaced.message.startswith("it is retired as soon as ")) == ("Replace", True)
    state = "SELECT state FROM engine_instances WHERE id = 'i0'"
    assert rows(database, state) == [("accepting",)]
    have_added(database)
    look(fleet, 1234)
    assert rows(database, state) == [("retired",)]
    orders = "SELECT kind, actor, outcome FROM fleet_orders ORDER BY decided_at"
    assert rows(database, orders) == [
        ("AddEngineInstance", "remediation", "accepted"),
        ("RetireEngineInstance", "remediation", "accepted"),
    ]
    take(fleet, 1400, Event(RemediesDue(), 0, ""))
    assert fleet.fleet_reader.load_remediations()["i0"].state == "well"


def test_instance_when_it_is_well_again_then_the_one_that_was_ordered_in_its_place_is_shown_until_that_is_retired(
    sessions: Sessions, database: Database
) -> None:
    fleet, reports = sessions
    have_installed(database)
    tell(reports, 1000, "Down", "NotAccepted")
    for second in (1010, 1010, 1144):
        look(fleet, second)
    tell(reports, 1150, "Healthy")
    for second in (1150, 3000):
        take(fleet, second, Event(RemediesDue(), 0, ""))
    (row,) = shown(database, "remedies")
    assert (row["state"], row["replacedBy"].endswith("-general-1")) == ("well", True)
    with psycopg.connect(database.owner_url) as owner:
        owner.execute("UPDATE engine_instances SET state = 'retired' WHERE id = %s", (row["replacedBy"],))
    assert shown(database, "remedies") == []


def test_report_when_it_comes_while_the_next_remedy_is_decided_on_then_neither_planner_undoes_the_other(
    sessions: Sessions, database: Database
) -> None:
    fleet, reports = sessions
    tell(reports, 1000, "Down", "ControllerNotReady")
    _, row = (look(fleet, 1010) for _ in range(2))
    decided = planned(fleet, 1110, Event(RemediesDue(), 0, ""))
    answer(reports, row, Applied(""), 1110)
    fleet.save_changes(decided, ())
    answer(reports, row, Failed("", permanent=True, message="late"), 1111)
    after = fleet.fleet_reader.load_remediations()["i0"]
    assert (after.rung, after.told_number, after.told_outcome) == ("Evacuate", row.number, "done")
    assert not after.is_skipped


def test_instance_when_cordoned_then_no_planner_places_a_tenant_on_it_and_no_order_moves_one_there(
    sessions: Sessions, database: Database
) -> None:
    fleet, reports = sessions
    (first,) = planned(reports, 2, changed(1)).tenants
    chosen = first.tenant.engine_instance_id
    tell(reports, 1000, "Degraded", "ApiSlow", chosen)
    take(fleet, 1010, Event(RemediesDue(), 0, ""))
    reports.refresh_fleet()
    for session in sessions:
        (tenant,) = planned(session, 1011, changed(1)).tenants
        assert tenant.tenant.engine_instance_id != chosen
    take(reports, 1011, changed(1))
    take(fleet, 1012, ordered(1012, MoveTenant(WORKSPACE, NAMESPACE, chosen)))
    ((outcome, message),) = rows(database, "SELECT outcome, message FROM fleet_orders")
    assert (outcome, message) == ("refused", f"engine instance {chosen} is cordoned: why")
    assert [each["id"] for each in shown(database, "list") if each["cordoned"]] == [chosen]


def test_instance_when_healthy_again_for_a_while_then_its_cordon_is_lifted_and_all_of_it_is_in_the_audit(
    sessions: Sessions, database: Database
) -> None:
    fleet, reports = sessions
    tell(reports, 1000, "Degraded", "ApiSlow")
    assert look(fleet, 1010).is_cordoned
    tell(reports, 1050, "Healthy")
    assert look(fleet, 1110).state == "recovering"
    assert look(fleet, 1350).state == "well"
    assert not is_due(fleet, 9999)
    assert [each["message"] for each in shown(database, "remedies", "--past")] == [
        "Cordon (ApiSlow): why", "Well: it is healthy",
    ]  # fmt: skip
    assert rows(database, AUDIT) == [("Cordon (ApiSlow): why",), ("Well: it is healthy",)]
    assert shown(database, "remedies") == []


def test_instance_when_it_falls_ill_again_while_it_recovers_then_it_is_looked_at_at_once_and_not_again_and_again(
    sessions: Sessions,
) -> None:
    fleet, reports = sessions
    tell(reports, 1000, "Degraded", "ApiSlow")
    look(fleet, 1010)
    tell(reports, 1050, "Healthy")
    assert look(fleet, 1110).state == "recovering"
    tell(reports, 1120, "Down", "ControllerNotReady")
    assert look(fleet, 1121).state != "recovering"
    assert not is_due(fleet, 1122)


def test_remediation_when_switched_off_then_what_was_done_is_taken_back_once(sessions: Sessions) -> None:
    fleet, reports = sessions
    tell(reports, 1000, "Degraded", "ApiSlow")
    look(fleet, 1010)
    assert is_due(fleet, 1011, is_on=False)
    off = replace(POLICY, remedies=replace(POLICY.remedies, is_on=False))
    fleet.save_changes(plan_batch([Event(RemediesDue(), 0, "")], fleet, off, at(1011)), ())
    assert fleet.fleet_reader.load_remediations()["i0"].state == "well"
    assert not is_due(fleet, 9999, is_on=False)


def evacuated(sessions: Sessions, database: Database) -> str:
    """The instance of the only tenant, which is down, at second 1077."""
    fleet, reports = sessions
    take(reports, 2, changed(1))
    ((here,),) = rows(database, "SELECT engine_instance_id FROM tenants")
    tell(reports, 1000, "Down", "HeartbeatLost", str(here))
    for second in (1010, 1010, 1077):
        take(fleet, second, Event(RemediesDue(), 0, ""))
    return str(here)


def test_evacuation_when_due_then_its_moves_are_ordered_with_the_rung_in_one_transaction(
    sessions: Sessions, database: Database
) -> None:
    fleet, _ = sessions
    here = evacuated(sessions, database)
    ((source, target, actor),) = rows(database, "SELECT source, target, actor FROM moves")
    assert (source, target != here, actor) == (here, True, "remediation")
    assert fleet.fleet_reader.load_remediations()[here].rung == "Evacuate"


def test_evacuation_when_its_remedy_is_held_then_none_of_its_moves_is_due_or_begins(
    sessions: Sessions, database: Database
) -> None:
    assert evacuating(sessions, database, "held") == (False, "ordered")


def test_evacuation_when_its_remedy_goes_on_then_its_moves_are_due_and_begin(
    sessions: Sessions, database: Database
) -> None:
    assert evacuating(sessions, database, "acting") == (True, "reserved")


def evacuating(sessions: Sessions, database: Database, state: str) -> tuple[bool, object]:
    """Whether the only move of an evacuation is due while its remedy is in ``state``, and its step after a look."""
    fleet, _ = sessions
    here = evacuated(sessions, database)
    with psycopg.connect(database.owner_url) as owner:
        owner.execute("UPDATE remediations SET state = %s WHERE engine_instance_id = %s", (state, here))
    with fleet.connection() as connection:
        is_due = is_move_due(connection, at(1080), 5, 5)
    take(fleet, 1080, Event(FleetDue(), 0, ""))
    ((step,),) = rows(database, "SELECT step FROM moves")
    return is_due, step


AWAY = """
WITH moved AS (UPDATE moves SET step = 'done', step_since = %(at)s, due_at = NULL WHERE step = 'ordered'
               RETURNING tenant_id, target)
UPDATE tenants SET engine_instance_id = moved.target FROM moved WHERE tenants.id = moved.tenant_id
"""


def test_tenant_when_each_instance_that_it_comes_to_falls_ill_then_it_is_evacuated_twice_and_stays_on_the_third(
    sessions: Sessions, database: Database
) -> None:
    fleet, reports = sessions
    take(reports, 2, changed(1))
    been = []
    for second in (1000, 1200, 1400):
        ((here,),) = rows(database, "SELECT engine_instance_id FROM tenants")
        been.append(here)
        tell(reports, second, "Down", "HeartbeatLost", str(here))
        for later in (10, 10, 77, 97):
            take(fleet, second + later, Event(RemediesDue(), 0, ""))
        with psycopg.connect(database.owner_url) as owner:
            owner.execute(AWAY, {"at": at(second + 80)})
        tell(reports, second + 90, "Healthy" if second < 1400 else "Down", instance=str(here))
    assert len({*been}) == 3
    assert rows(database, "SELECT source, evacuated_for FROM moves ORDER BY step_since") == [
        (been[0], "HeartbeatLost"),
        (been[1], "HeartbeatLost"),
    ]
    while fleet.fleet_reader.load_remediations()[str(here)].state != "exhausted":
        second += 100
        take(fleet, second, Event(RemediesDue(), 0, ""))
    left = " and ".join(sorted(map(str, been[:2])))
    assert f"it was evacuated from {left} within a day" in fleet.fleet_reader.load_remediations()[str(here)].message

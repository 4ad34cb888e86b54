"""What operators are told while an instance is added, waited for, and retired."""

from __future__ import annotations

from dataclasses import replace

import pytest
from typer.testing import CliRunner, Result

from services.cli.fleet import engine_lifecycle, engines
from services.common.errors import InvalidConfiguration, Unavailable
from services.common.messages import AddEngineInstance, FleetOrder, RetireEngineInstance
from services.planner.domain.fleet.reports.report_rows import Installation
from services.planner.domain.fleet.rows import EngineInstanceRow, InstanceState
from tests.unit.cli.fleet.test_engines import FLEET, ONE, URL, sent, typed
from tests.unit.planner.given import at

__all__ = ["sent"]


def waited(monkeypatch: pytest.MonkeyPatch, *looks: EngineInstanceRow) -> Result:
    """What it is like to wait for the instance, which is so at one look after the other, and then for no longer."""
    shown = iter(looks)
    monkeypatch.setattr(engine_lifecycle, "fleet", lambda _: replace(FLEET, instances={"one": next(shown)}))
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
    monkeypatch.setattr(engine_lifecycle, "fleet", lambda _: installing)
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

"""A stack starts, is looked at, loses processes, and ends without a trace, whichever way it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest

from devstack.harness import control
from devstack.harness.hosted import HostedStack, hosted
from devstack.stack.state_folder import State
from devstack.supervisor import trampoline
from devstack.supervisor.child import family_of, is_alive, still_there
from services.common.errors import InvalidConfiguration, Unavailable
from tests.stack.small import ESSENTIAL, SMALL, Gitopsctl, await_gone

pytestmark = pytest.mark.long  # all stacks of other tests come up, lose processes and go likewise
UNAVAILABLE = 69
INVALID = 2


@pytest.fixture
def background(gitopsctl: Gitopsctl, state: Path) -> Iterator[dict[str, Any]]:
    """A small stack started with ``--detach``; yields its status."""
    outcome = gitopsctl("up", "--detach", *SMALL)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    status = json.loads(gitopsctl("status", "--json").stdout)
    family = family_of(status["pid"])
    yield status
    if status["pid"] in still_there(family):
        with suppress(ProcessLookupError):
            os.kill(status["pid"], signal.SIGTERM)
    await_gone(family)


def test_up_when_detached_then_everything_is_ready_on_return(background: dict[str, Any]) -> None:
    assert background["ready"]
    assert {item["name"] for item in background["processes"]} == set(ESSENTIAL)
    assert all(item["ready"] for item in background["processes"])


def test_status_when_json_then_it_lists_pid_ports_and_memory_of_each_process(background: dict[str, Any]) -> None:
    (postgres,) = [item for item in background["processes"] if item["name"] == "postgres"]
    assert is_alive(postgres["pid"])
    assert postgres["ports"].keys() == {"sql"}
    assert postgres["memory"] > 5_000_000


def test_up_when_up_already_then_it_says_so_and_succeeds(background: dict[str, Any], gitopsctl: Gitopsctl) -> None:
    outcome = gitopsctl("up", "--detach", *SMALL)
    assert (outcome.returncode, outcome.stdout) == (0, "the stack is up already\n")


def test_up_when_up_already_but_otherwise_then_it_is_refused(background: dict[str, Any], gitopsctl: Gitopsctl) -> None:
    outcome = gitopsctl("up", "--detach", "--argocd", "--fresh", *SMALL)
    assert outcome.returncode == INVALID
    assert "started otherwise (fresh, argocd); end it with 'gitopsctl dev down' first" in outcome.stderr


def test_up_when_another_runs_in_the_folder_then_it_is_refused(
    background: dict[str, Any], gitopsctl: Gitopsctl, state: Path
) -> None:
    outcome = gitopsctl("up", *SMALL)
    assert outcome.returncode == INVALID
    assert outcome.stderr == (f"gitopsctl: error: a stack is running in {state}; end it with 'gitopsctl dev down'\n")


def test_env_when_evaluated_by_a_shell_then_the_variables_are_set(
    background: dict[str, Any], gitopsctl: Gitopsctl, state: Path
) -> None:
    script = gitopsctl("env").stdout + 'echo "$KUBECONFIG $ENGINE_NAMESPACES $DATABASE_URL"'
    values = subprocess.run(["/bin/sh"], input=script, capture_output=True, text=True, check=True).stdout.split()
    assert values[:2] == [str(state / "kubeconfig"), "gitops-service-argocd,gitops-service-argocd-2"]
    assert values[2].startswith("postgresql://gitops_planner:")


def test_logs_when_asked_then_the_output_of_the_process_is_shown(
    background: dict[str, Any], gitopsctl: Gitopsctl
) -> None:
    assert "database system is ready" in gitopsctl("logs", "postgres").stdout
    assert "there are etcd" in gitopsctl("logs", "nothing").stderr.replace("database-roles, ", "")


def test_down_when_asked_then_no_process_is_left(background: dict[str, Any], gitopsctl: Gitopsctl) -> None:
    family = family_of(background["pid"])
    assert len(family) > len(ESSENTIAL)
    assert gitopsctl("down").returncode == 0
    assert still_there(family) == []


def test_down_when_nothing_runs_then_it_succeeds(gitopsctl: Gitopsctl) -> None:
    outcome = gitopsctl("down")
    assert (outcome.returncode, outcome.stdout) == (0, "no stack is running\n")


def test_status_when_nothing_runs_then_it_is_unavailable(gitopsctl: Gitopsctl, state: Path) -> None:
    outcome = gitopsctl("status")
    assert outcome.returncode == UNAVAILABLE
    assert outcome.stderr.startswith("gitopsctl: error: ")
    assert outcome.stderr.count("\n") == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGKILL])
def test_supervisor_when_it_gets_a_signal_then_no_process_is_left(
    background: dict[str, Any], number: signal.Signals
) -> None:
    family = family_of(background["pid"])
    os.kill(background["pid"], number)
    assert await_gone(family) == []


def test_up_when_the_last_supervisor_was_killed_then_it_comes_up_again(
    background: dict[str, Any], gitopsctl: Gitopsctl, state: Path
) -> None:
    family = family_of(background["pid"])
    os.kill(background["pid"], signal.SIGKILL)
    await_gone(family)
    with hosted(state, *SMALL) as again:
        assert again.pids().keys() == {"postgres", "etcd"}


def test_kill_when_asked_then_only_that_process_ends(small: HostedStack) -> None:
    before = small.pids()
    small.kill("postgres")
    after = small.pids()
    assert after == {"etcd": before["etcd"]}
    small.start("postgres")
    assert _query(small, "SELECT 1") == 1


def test_start_when_it_runs_already_then_it_is_refused(small: HostedStack) -> None:
    with pytest.raises(InvalidConfiguration, match="etcd is running already"):
        small.start("etcd")


def test_kill_when_there_is_no_such_process_then_those_there_are_are_named(small: HostedStack) -> None:
    with pytest.raises(InvalidConfiguration, match="no process 'kafka'; there are postgres, etcd"):
        small.kill("kafka")


def test_process_when_it_dies_by_itself_then_it_is_named_with_the_end_of_its_log(
    small: HostedStack, stacks_folder: Path
) -> None:
    os.kill(small.pids()["etcd"], signal.SIGKILL)
    output = _await_text(stacks_folder / "small.out", "etcd was ended by SIGKILL")
    assert str(small.state.log("etcd")) in output
    assert [item["phase"] for item in small.processes() if item["name"] == "etcd"] == ["died"]
    assert _query(small, "SELECT 1") == 1
    small.start("etcd")


def test_up_when_a_process_dies_at_once_then_it_fails_naming_it_and_leaves_nothing(
    gitopsctl: Gitopsctl, state: Path
) -> None:
    State(state).prepare()
    (state / "etcd").write_text("not a folder")
    outcome = gitopsctl("up", "--detach", *SMALL)
    assert outcome.returncode == UNAVAILABLE
    assert outcome.stderr == "gitopsctl: error: etcd ended with exit code 1 before it was ready\n"
    assert "not a directory" in outcome.stdout
    with pytest.raises(Unavailable):
        control.ask(State(state).control_socket, {"do": "status"})


def test_our_service_when_only_infrastructure_was_asked_for_then_it_is_started_by_name(
    infrastructure: HostedStack,
) -> None:
    assert "argocd-simulator" not in infrastructure.pids()
    infrastructure.start("argocd-simulator")
    assert "argocd-simulator" in infrastructure.pids()
    infrastructure.kill("argocd-simulator")


def test_up_when_an_unknown_process_is_left_out_then_it_is_refused(gitopsctl: Gitopsctl) -> None:
    outcome = gitopsctl("up", "--without", "nonsense")
    assert outcome.returncode == INVALID
    assert outcome.stderr == "gitopsctl: error: --without nonsense: there is no such process\n"


def test_up_when_a_needed_process_is_left_out_then_it_is_refused(gitopsctl: Gitopsctl) -> None:
    outcome = gitopsctl("up", "--infra", "--without", "etcd")
    assert outcome.stderr == "gitopsctl: error: --without etcd: kube-apiserver needs it\n"


def test_up_when_the_folder_holds_something_else_then_nothing_is_touched(gitopsctl: Gitopsctl, state: Path) -> None:
    state.mkdir(parents=True)
    (state / "thesis.txt").write_text("years of work")
    outcome = gitopsctl("up", "--fresh", *SMALL)
    assert outcome.returncode == INVALID
    assert list(state.iterdir()) == [state / "thesis.txt"]


def test_data_when_the_stack_was_down_then_it_is_kept_unless_fresh_is_asked_for(state: Path) -> None:
    with hosted(state, *SMALL) as stack:
        _execute(stack, "CREATE TABLE kept ()")
    with hosted(state, *SMALL) as stack:
        assert _query(stack, "SELECT to_regclass('kept') IS NOT NULL") is True
    with hosted(state, "--fresh", *SMALL) as stack:
        assert _query(stack, "SELECT to_regclass('kept') IS NOT NULL") is False


def test_stacks_when_two_run_side_by_side_then_they_share_no_port(small: HostedStack, state: Path) -> None:
    with hosted(state, *SMALL) as other:
        ports = [port for stack in (small, other) for item in stack.processes() for port in item["ports"].values()]
        assert len(ports) == len(set(ports)) > 0
        assert _query(other, "SELECT 1") == _query(small, "SELECT 1")


def test_postgres_when_durable_then_it_flushes(state: Path, small: HostedStack) -> None:
    with hosted(state, "--durable", *SMALL) as durable:
        assert (_query(durable, "SHOW fsync"), _query(small, "SHOW fsync")) == ("on", "off")


def test_secrets_when_written_then_only_the_owner_reads_them(small: HostedStack) -> None:
    for path in (small.state.root / "secrets.json", small.state.root / "environment.json"):
        assert path.stat().st_mode & 0o077 == 0
    assert small.state.control_socket.stat().st_mode & 0o077 == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_up_when_run_by_an_ordinary_user_then_it_works(gitopsctl: Gitopsctl) -> None:
    # In a user namespace of its own the whole stack is an ordinary user's, who yet may read this clone.
    ordinary = ("python3", trampoline.__file__, str(os.getpid()), str(int(signal.SIGKILL)), "namespace")
    outcome = gitopsctl("up", "--detach", *SMALL, prefix=ordinary)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    status = json.loads(gitopsctl("status", "--json").stdout)
    assert gitopsctl("down").returncode == 0
    assert not is_alive(status["pid"])


@pytest.fixture(scope="module")
def small(stacks_folder: Path) -> Iterator[HostedStack]:
    """A small stack for the tests that leave it as they found it."""
    with hosted(stacks_folder / "small", *SMALL, output=stacks_folder / "small.out") as stack:
        yield stack


def _query(stack: HostedStack, query: str) -> Any:
    with psycopg.connect(stack.environment["DATABASE_OWNER_URL"]) as connection:
        row = connection.execute(query).fetchone()  # type: ignore[call-overload]
        return row[0] if row else None


def _execute(stack: HostedStack, statement: str) -> None:
    with psycopg.connect(stack.environment["DATABASE_OWNER_URL"]) as connection:
        connection.execute(statement)  # type: ignore[call-overload]


def _await_text(file: Path, text: str) -> str:
    deadline = time.monotonic() + 10
    while text not in (content := file.read_text()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert text in content
    return content

"""What ``rebuild`` says, and ends with, when something is kept or refused, and when the database goes away."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from itertools import chain, repeat
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from services.cli import __main__ as gitopsctl
from services.cli.rebuild import awaited_lists, progress, rebuild, unknown_rows, withdrawal
from services.cli.rebuild.placements import Placements
from services.cli.rebuild.streamed_topics import StreamedTopics, Unreadable
from services.cli.rebuild.unknown_rows import Unknown
from services.common.errors import InvalidConfiguration, Retry, Unavailable
from services.common.kafka import TopicPartition

LOG = TopicPartition("log", 0)
AWAY = Retry("connection refused")
ENVIRONMENT = {
    "DATABASE_OWNER_URL": "postgresql://gitops_owner@127.0.0.1:1/gitops",
    "KAFKA_BOOTSTRAP_SERVERS": "localhost:1",
    "SCHEMA_REGISTRY_URL": "http://localhost:1",
}
NOTHING = Unknown({}, {}, {})


def unknown(number: int, of: str = "a") -> Unknown:
    """So many objects of an instance of which 30 are known."""
    row: Any = None
    return Unknown({("one", "Application", "argocd", f"{of}-{each}"): row for each in range(number)}, {}, {"one": 30})


class Sweep:
    """A database and topics of which a sweep finds this; what it does is noted."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.found, self.kept, self.done = NOTHING, NOTHING, list[str]()
        self.unreadable = list[Unreadable]()
        self.awaited, self.swept = list[str](), list[str]()
        self.failures: dict[str, list[Exception]] = {}
        parts: dict[tuple[Any, str], Callable[..., Any]] = {
            (rebuild, "require_newer_lists"): self._note_lists,
            (rebuild, "positions"): lambda _: ({LOG: 0}, {LOG: 5}),
            (awaited_lists, "added_workspaces"): lambda _: ["local", "other"],
            (rebuild, "end_rebuild"): self._noting("end"),
            (unknown_rows, "find_unknown"): self._find,
            (withdrawal, "withdraw"): self._noting("withdraw"),
            (withdrawal, "require_removed"): self._noting("removed"),
        }
        for (module, name), part in parts.items():
            monkeypatch.setattr(module, name, part)

    def _note_lists(self, _url: object, _settings: object, workspaces: list[str]) -> None:
        self._noting("listed")()
        self.awaited = workspaces

    def _find(
        self,
        _url: object,
        topics: StreamedTopics,
        workspaces: list[str],
        approved: Collection[str],
        unlisted: Collection[str],
    ) -> unknown_rows.Sweep:
        """What is kept is so because of a tenant."""
        self.swept = workspaces
        topics._unreadable["topic"] = {str(each.offset).encode(): each for each in self.unreadable}
        row: Any = None
        objects = {**self.found.objects, **dict.fromkeys(self.kept.objects, row)}
        unknown = Unknown({key: key for key in objects}, {}, self.found.row_counts)
        kept_as = lambda row: "local/team-a" if row in self.kept.objects else ""  # noqa: E731
        return unknown_rows.divide(unknown, kept_as, approved, unlisted)

    def _noting(self, what: str) -> Callable[..., None]:
        def act(*_: object) -> None:
            if failures := self.failures.get(what):
                raise failures.pop(0)
            self.done.append(what)

        return act

    def run(self, *arguments: str, **environment: str) -> Any:
        words = ["sweep", "--timeout", "0.3", "--wait", "0.3", *arguments]
        return CliRunner().invoke(rebuild.app, words, env=ENVIRONMENT | environment)


@pytest.fixture
def sweep(monkeypatch: pytest.MonkeyPatch) -> Sweep:
    return Sweep(monkeypatch)


@pytest.mark.parametrize(
    ("found", "kept", "code", "done"),
    [
        pytest.param(unknown(5), NOTHING, 0, ["listed", "withdraw", "removed", "end"], id="all is withdrawn"),
        pytest.param(unknown(5), unknown(1, "k"), 3, ["listed", "withdraw", "removed"], id="something is kept"),
        pytest.param(unknown(31), unknown(1, "k"), 1, ["listed"], id="the guard refuses"),
    ],
)
def test_sweep_when_something_is_kept_or_refused_then_its_exit_code_says_which(
    sweep: Sweep, found: Unknown, kept: Unknown, code: int, done: list[str]
) -> None:
    sweep.found, sweep.kept = found, kept
    assert (sweep.run().exit_code, sweep.done) == (code, done)
    sweep.done.clear()
    assert (sweep.run("--dry-run").exit_code, sweep.done) == (code, ["listed"])


UNREADABLE = [Unreadable(TopicPartition("gitops.engine.default", 2), 17, "schema 7 is not in the registry")]


@pytest.mark.parametrize("arguments", [(), ("--dry-run",)])
def test_sweep_when_messages_cannot_be_decoded_then_they_are_named_and_nothing_is_withdrawn(
    sweep: Sweep, arguments: tuple[str, ...]
) -> None:
    sweep.found, sweep.unreadable = unknown(5), UNREADABLE
    ended = sweep.run(*arguments)
    assert "not understood: gitops.engine.default/2 at 17: schema 7 is not in the registry\n" in ended.stderr
    assert isinstance(ended.exception, InvalidConfiguration)
    assert str(ended.exception).startswith("1 messages of topics cannot be decoded")
    assert sweep.done == ["listed"]


def test_sweep_when_messages_that_cannot_be_decoded_are_passed_over_then_they_are_named_all_the_same(
    sweep: Sweep,
) -> None:
    sweep.unreadable = UNREADABLE
    ended = sweep.run("--pass-over-unreadable")
    assert (ended.exit_code, "gitops.engine.default/2 at 17" in ended.stderr) == (0, True)


@pytest.mark.parametrize("incomplete", [False, True])
def test_rebuild_when_messages_cannot_be_decoded_then_it_begins_only_by_consent(
    monkeypatch: pytest.MonkeyPatch, incomplete: bool
) -> None:
    def known(_: object, topics: StreamedTopics) -> Any:
        topics._unreadable["topic"] = {b"": UNREADABLE[0]}
        return SimpleNamespace(placements=Placements())

    parts: dict[str, Callable[..., Any]] = {
        "read_contents": known,
        "read_logs": lambda _: {},
        "begin": lambda *_, **__: {},
    }
    for name, part in parts.items():
        monkeypatch.setattr(rebuild, name, part)
    monkeypatch.setattr(rebuild.connector, "is_stopped", lambda: True)
    words = ["start", "--restored", *(["--incomplete"] if incomplete else [])]
    ended = CliRunner().invoke(rebuild.app, words, env=ENVIRONMENT)
    assert "not understood: gitops.engine.default/2 at 17" in ended.stderr
    assert (ended.exit_code == 0, "by --incomplete" in str(ended.exception)) == (incomplete, not incomplete)


def test_sweep_when_a_workspace_is_gone_then_others_are_swept_without_it_and_the_rebuild_goes_on(sweep: Sweep) -> None:
    sweep.found = unknown(5)
    ended = sweep.run("--without", "other")
    assert (sweep.awaited, sweep.swept) == (["local"], ["local"])
    assert (ended.exit_code, sweep.done) == (3, ["listed", "withdraw", "removed"])
    (name,) = names_told(ended.stderr)
    assert f"not listed: sweep again with its watchers, or --approve {name} if they are gone" in ended.stderr


def names_told(text: str) -> list[str]:
    """By which a sweep says that it is approved."""
    return re.findall(r"--approve (\S+@[0-9a-f]{12})\b", text)


def test_sweep_when_it_is_approved_that_a_workspace_is_gone_then_the_rebuild_ends(sweep: Sweep) -> None:
    (name,) = names_told(sweep.run("--without", "other", "--dry-run").stdout)
    assert name.startswith("other@")
    sweep.done.clear()
    assert sweep.run("--without", "other", "--approve", name).exit_code == 0
    assert sweep.done[-1] == "end"


def test_sweep_when_what_was_shown_is_approved_then_exactly_that_goes(sweep: Sweep) -> None:
    """Of an instance that would lose much, and of a tenant of which all is kept."""
    sweep.found, sweep.kept = unknown(31), unknown(2, "k")
    shown = sweep.run("--dry-run")
    (of_tenant,), (of_instance,) = names_told(shown.stdout), names_told(shown.stderr)
    assert (of_tenant.partition("@")[0], of_instance.partition("@")[0]) == ("local/team-a", "one")
    sweep.done.clear()
    assert sweep.run("--approve", of_instance).exit_code == 3
    assert sweep.done == ["listed", "withdraw", "removed"]
    (with_tenant,) = names_told(sweep.run("--dry-run", "--approve", of_tenant).stderr)
    assert sweep.run("--approve", of_tenant, "--approve", with_tenant).exit_code == 0
    assert sweep.done[-1] == "end"


@pytest.mark.parametrize("more", ["found", "kept"])
def test_sweep_when_something_else_would_go_than_was_approved_then_the_approval_does_not_count(
    sweep: Sweep, more: str
) -> None:
    sweep.found, sweep.kept = unknown(31), unknown(2, "k")
    shown = sweep.run("--dry-run")
    name = names_told(shown.stderr if more == "found" else shown.stdout)[0]
    sweep.found, sweep.kept = (unknown(32), NOTHING) if more == "found" else (unknown(5), unknown(3, "k"))
    sweep.done.clear()
    ended = sweep.run("--approve", name)
    assert ended.exit_code == (1 if more == "found" else 3)
    assert ("withdraw" in sweep.done) == (more == "kept")
    (newer,) = names_told(ended.stderr if more == "found" else ended.stdout)
    assert newer.partition("@")[0] == name.partition("@")[0]
    assert newer != name


def test_sweep_when_an_approval_does_not_say_of_what_then_it_is_refused_before_anything_is_read(sweep: Sweep) -> None:
    error = sweep.run("--approve", "one").exception
    assert isinstance(error, InvalidConfiguration)
    assert str(error) == "--approve one: say what may go, too, by the name that --dry-run tells"
    assert sweep.done == []


@pytest.mark.parametrize("command", ["sweep", "follow"])
def test_rebuild_when_it_is_to_go_without_a_workspace_that_there_is_not_then_it_says_which_there_are(
    sweep: Sweep, command: str
) -> None:
    error = CliRunner().invoke(rebuild.app, [command, "--without", "typo"], env=ENVIRONMENT).exception
    assert isinstance(error, InvalidConfiguration)
    assert str(error) == "--without typo: no workspace of that name was added, only: local, other"
    assert sweep.done == []


def test_sweep_when_it_is_over_then_it_tells_how_many_are_withdrawn_and_how_many_are_kept(sweep: Sweep) -> None:
    others = "0 statuses, 0 child objects and 0 pending claims"
    told = f"withdrawn: 5 objects, {others}; kept: 2 objects, {others}\n"
    sweep.found, sweep.kept = unknown(5), unknown(2, "k")
    assert told in sweep.run().stdout
    assert "withdrawn: " not in sweep.run("--dry-run").stdout


@pytest.mark.parametrize(
    ("minimum", "share", "code"),
    [pytest.param("4", "0.1", 1, id="both exceeded"), pytest.param("4", "0.2", 0), pytest.param("5", "0.1", 0)],
)
def test_sweep_when_the_guard_of_resyncs_is_set_then_it_is_that_of_the_sweep(
    sweep: Sweep, minimum: str, share: str, code: int
) -> None:
    sweep.found = unknown(5)
    assert sweep.run(RESYNC_GUARD_MINIMUM=minimum, RESYNC_GUARD_SHARE=share).exit_code == code


def test_sweep_when_the_database_is_away_for_a_moment_then_it_goes_on(sweep: Sweep) -> None:
    sweep.failures = {"withdraw": [AWAY], "end": [AWAY]}
    assert sweep.run().exit_code == 0
    assert sweep.done == ["listed", "withdraw", "removed", "end"]


@pytest.mark.parametrize("step", ["withdraw", "removed", "end"])
def test_sweep_when_the_database_stays_away_then_it_says_what_to_run_next(sweep: Sweep, step: str) -> None:
    sweep.failures = {step: [AWAY] * 100}
    error = sweep.run().exception
    assert isinstance(error, Unavailable)
    assert str(error).endswith("connection refused; once that is mended, run 'gitopsctl rebuild sweep' again")


def follow(monkeypatch: pytest.MonkeyPatch, answers: Iterator[Any], *options: str, is_lacking: bool = True) -> Any:
    """Up to the end of the replay; ``answers`` are what the database says of how far planners are.

    Then a log that ``is_lacking`` lists has newer ones waited for; in the end it is asked how far the log goes now.
    """

    def read(_: str) -> Any:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def end(reason: str) -> Callable[..., None]:
        def act(*_: object) -> None:
            raise InvalidConfiguration(reason)

        return act

    monkeypatch.setattr(progress, "LOOK_EVERY_SECONDS", 0.01)
    monkeypatch.setattr(awaited_lists, "added_workspaces", lambda _: ["local"])
    monkeypatch.setattr(rebuild, "positions", lambda _: ({LOG: 0}, {LOG: 5}))
    monkeypatch.setattr(rebuild, "read_offsets", read)
    monkeypatch.setattr(rebuild, "needs_newer_lists", lambda *_: is_lacking)
    monkeypatch.setattr(rebuild, "require_newer_lists", end("it waits for newer lists"))
    monkeypatch.setattr(rebuild, "read_logs", end("it goes on at once"))
    return CliRunner().invoke(rebuild.app, ["follow", "--timeout", "0.5", *options], env=ENVIRONMENT)


def test_replay_when_the_database_is_away_for_a_moment_then_it_is_followed_to_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    outcome = follow(monkeypatch, iter([{LOG: 1}, AWAY, {LOG: 3}, AWAY, {LOG: 5}]))
    assert outcome.stdout.startswith("replayed: 5 messages in ")


@pytest.mark.parametrize(
    ("is_lacking", "options", "goes_on"),
    [
        pytest.param(True, (), "it waits for newer lists", id="the log lacks a list"),
        pytest.param(False, (), "it goes on at once", id="what was replayed is whole: users' changes wait no longer"),
        pytest.param(False, ("--lists",), "it waits for newer lists", id="an operator wants them: no run runs again"),
    ],
)
def test_replay_when_it_is_over_then_newer_lists_are_waited_for_if_the_log_lacks_one_or_an_operator_says_so(
    monkeypatch: pytest.MonkeyPatch, *, is_lacking: bool, options: tuple[str, ...], goes_on: str
) -> None:
    error = follow(monkeypatch, iter([{LOG: 5}]), *options, is_lacking=is_lacking).exception
    assert isinstance(error, InvalidConfiguration)
    assert str(error) == goes_on


def test_replay_when_the_database_stays_away_then_it_says_what_to_run_next(monkeypatch: pytest.MonkeyPatch) -> None:
    error = follow(monkeypatch, chain([{LOG: 1}], repeat(AWAY))).exception
    assert isinstance(error, Unavailable)
    assert str(error).endswith("connection refused; once that is mended, run 'gitopsctl rebuild follow' again")


def test_command_when_it_has_not_tried_again_what_failed_then_one_line_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise AWAY

    monkeypatch.setattr(gitopsctl, "app", fail)
    with pytest.raises(SystemExit) as ended:
        gitopsctl.main()
    assert ended.value.code == Unavailable.exit_code
    assert capsys.readouterr().err == "gitopsctl: error: connection refused\n"

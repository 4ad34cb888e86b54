"""``gitopsctl replay at``: what was desired at a time, by what the logs hold up to it and by this build's rules.

The logs are replayed into a scratch database by the code of the planner, and compared with the database as it is now.
Nothing but ``--apply`` has an effect on anything.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import partial
from itertools import islice
from typing import NamedTuple

import typer
from aiokafka.partitioner import murmur2
from rich.console import Console
from rich.progress import Progress, TaskID

from services.cli.database_connection import URL, connected
from services.cli.filters import TENANT, parse_resource, parse_since, parse_tenant
from services.cli.output import Output, print_rows, tell
from services.cli.replay import reissue
from services.cli.replay.complete_lists import Gap, added_workspaces, listed_kinds, read_lists
from services.cli.replay.desired_state import Documents, diff_lines, differing, read_documents
from services.cli.replay.kept_messages import has_kept
from services.cli.replay.replayed_logs import Offsets, Replay, replay_logs
from services.cli.replay.scratch_database import ScratchSession
from services.cli.sending import CLIENT
from services.common.avro import AvroCodec, SchemaRegistry, value_subject
from services.common.errors import InvalidConfiguration, Retry, Unavailable
from services.common.kafka import COMMANDS, OBSERVATIONS, PartitionReader, TopicPartition, tenant_key
from services.common.messages import Command, Observation
from services.common.settings import KafkaSettings, load
from services.common.telemetry import configure_logging
from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT
from services.planner.pipeline.decode import Codec
from services.planner.rows.tenants import TenantName
from services.planner.settings import PolicySettings

INCOMPLETE = 1
"""Exit code."""
GAPS_SHOWN = 10
REPORTED_WITHIN = timedelta(hours=2)
"""Agents report again what they have found of credentials, without which environments are not used."""

AT = typer.Argument(..., metavar="TIME", help="2026-05-04T12:00:00Z, or how long ago, as P1D or PT2H.")
APPLY = typer.Option(
    False,
    "--apply",
    help="Put the specs then of the tenant's GitOpsDeployments in force again, until each changes or is listed again.",
)
RESOURCE = typer.Option(
    None, "--resource", metavar="KIND/NAME", help="With --apply: only this GitOpsDeployment's; more than once."
)
CONFIRM = typer.Option("", "--confirm", metavar="WORKSPACE/NAMESPACE", help="The tenant once more: --apply does it.")


class Shown(StrEnum):
    """As ``-o`` says it."""

    DIFF = "diff"
    JSON = "json"
    YAML = "yaml"


SHOWN = typer.Option(Shown.DIFF, "-o", "--output", help="What has changed since, or all that was desired then.")


class States(NamedTuple):
    """The two states that are compared."""

    then: Documents
    now: Documents
    remarks: tuple[str, ...]
    """What an operator has to know of the first."""


def at(
    time: str = AT,
    tenant: str | None = TENANT,
    output: Shown = SHOWN,
    resources: list[str] | None = RESOURCE,
    confirm: str = CONFIRM,
    url: str = URL,
    *,
    apply: bool = APPLY,
) -> None:
    """Show what was desired at TIME, or how that differs from what is desired now: specs in force, engines' objects.

    Needs KAFKA_…, SCHEMA_REGISTRY_… and the planner's settings: quotas and the like are as they are now. Refused, with
    exit code 1, if the logs do not hold a complete list of everything from before TIME.
    """
    named, moment = parse_tenant(tenant) if tenant is not None else None, parse_since(time, datetime.now(UTC), "TIME")
    names = [_deployment(each) for each in resources or ()]
    if names and not apply:
        raise InvalidConfiguration("--resource says of what --apply puts the spec in force again")
    if apply and named is None:
        raise InvalidConfiguration("--apply is for one tenant: name it by --tenant")
    if apply and confirm not in ("", tenant):
        raise InvalidConfiguration(f"--confirm '{confirm}' is not the tenant's name: it takes --confirm {tenant}")
    if moment > datetime.now(UTC):
        raise InvalidConfiguration(f"{time} is yet to come")
    configure_logging(CLIENT, "ERROR", "console")
    settings = load(KafkaSettings)
    try:
        states = compare(settings, url, moment, named)
    except Retry as error:
        raise Unavailable(str(error)) from error
    _print(states, output)
    if apply and named is not None:
        _reissue(settings, url, named, _chosen(states, names), confirmed=confirm == tenant)


def _deployment(text: str) -> str:
    """The name of a GitOpsDeployment. Raises InvalidConfiguration."""
    kind, name = parse_resource(text)
    if kind != GITOPS_DEPLOYMENT.kind:
        raise InvalidConfiguration(f"--resource: --apply is of {GITOPS_DEPLOYMENT.kind}s alone, not of {kind}/{name}")
    return name


def _chosen(states: States, names: Collection[str]) -> reissue.Chosen:
    """All that differ, or those of these ``names``."""
    chosen = reissue.choose(states.then, states.now)
    return reissue.only_of(names, chosen, states.then, states.now) if names else chosen


def compare(settings: KafkaSettings, url: str, moment: datetime, tenant: TenantName | None) -> States:
    """What was desired at ``moment``, and what is now. Raises Exit if the logs cannot tell, and Retry."""
    registry = SchemaRegistry(settings)
    commands = AvroCodec(registry, Command, value_subject(COMMANDS))
    ends, unobserved = _offsets_at(settings, moment, tenant)
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        reading, planning = (bar.add_task(what, total=None) for what in ("reading the log", "replaying"))
        gaps = [
            *map(str, _find_gaps(settings, commands, ends, tenant, partial(_show, bar, reading))),
            *(f"{source.topic}, partition {source.partition}: nothing is left from before" for source in unobserved),
        ]
        if gaps:
            _tell_gaps(gaps)
            raise typer.Exit(INCOMPLETE)
        codecs: dict[str, Codec] = {
            COMMANDS: commands,
            OBSERVATIONS: AvroCodec(registry, Observation, value_subject(OBSERVATIONS)),
        }
        session = ScratchSession(url)
        try:
            replay = Replay(session, codecs, load(PolicySettings).policy)
            replay_logs(settings, replay, ends, partial(_show, bar, planning))
            with session.connection() as connection:
                then = read_documents(connection, tenant)
                parked = connection.execute("SELECT count(*) FROM parked_tenants").fetchall()[0][0]
        finally:
            session.close()
    with connected(url) as connection:
        now = read_documents(connection, tenant)
    remarks = {
        len(replay.given_up): "messages cannot be understood or stored, as when they came: see 'gitopsctl dlq list'",
        parked: "tenants cannot be planned by this build, or have no engine instance: what is shown of them is older",
    }
    return States(then, now, tuple(f"{count} {what}" for count, what in remarks.items() if count))


def partition_of(key: bytes, partitions: int) -> int:
    """Where Kafka's default partitioner puts messages of this key, as producers of ours do."""
    return int(murmur2(key) & 0x7FFFFFFF) % partitions


def _offsets_at(
    settings: KafkaSettings, moment: datetime, tenant: TenantName | None
) -> tuple[Offsets, list[TopicPartition]]:
    """The ends of both logs' partitions at ``moment``, and the partitions that lack observations from before it.

    Each log has one topic or more. With ``tenant`` only its own partitions count, but all tenants of these are
    replayed: the guard of lists counts all resources of a partition.
    """
    with PartitionReader(settings, CLIENT) as reader:
        sources = reader.partitions_of(COMMANDS) + reader.partitions_of_observations()
        if tenant is not None:
            count = sum(source.topic == COMMANDS for source in sources)
            wanted = partition_of(tenant_key(*tenant), count)
            sources = [source for source in sources if source.partition == wanted]
        ends, first = reader.offsets_at(sources, moment), reader.first_offsets(sources)
        reported = reader.offsets_at(sources, moment - REPORTED_WITHIN)
    cut_off = [each for each in sources if each.topic != COMMANDS and 0 < first[each] >= reported[each]]
    # A partition that was quiet for long is cut off, too. What retention took from it may be older than what is needed.
    needed, now = moment - REPORTED_WITHIN, datetime.now(UTC)
    is_complete = {topic: has_kept(settings, topic, needed, now) for topic in {each.topic for each in cut_off}}
    return ends, [each for each in cut_off if not is_complete[each.topic]]


def _find_gaps(
    settings: KafkaSettings,
    codec: AvroCodec[Command],
    ends: Offsets,
    tenant: TenantName | None,
    show: Callable[[int, int], None],
) -> list[Gap]:
    """The complete lists that the log lacks of all that there was."""
    of_commands = {source: end for source, end in ends.items() if source.topic == COMMANDS}
    lists = read_lists(settings, COMMANDS, codec, show, until=of_commands)
    names = [tenant[0]] if tenant is not None else added_workspaces(settings)
    return lists.find_gaps(names, listed_kinds())


def _tell_gaps(gaps: Collection[str]) -> None:
    tell("replay: the logs cannot tell what there was at that time:")
    for gap in islice(gaps, GAPS_SHOWN):
        tell(gap)
    if len(gaps) > GAPS_SHOWN:
        tell(f"and {len(gaps) - GAPS_SHOWN} more")


def _show(bar: Progress, task: TaskID, done: int, total: int) -> None:
    bar.update(task, completed=done, total=total)


def _print(states: States, output: Shown) -> None:
    if output is Shown.DIFF:
        for line in diff_lines(states.then, states.now):
            typer.echo(line)
    else:
        rows = [{**subject._asdict(), **document} for subject, document in states.then.items()]
        print_rows(rows, {}, Output(output.value), nothing="")
    for remark in states.remarks:
        tell(f"replay: {remark}")
    tell(f"replay: {len(differing(states.then, states.now))} of {len({*states.then, *states.now})} differ")


def _reissue(settings: KafkaSettings, url: str, tenant: TenantName, chosen: reissue.Chosen, *, confirmed: bool) -> None:
    for name in chosen.gone:
        tell(f"replay: GitOpsDeployment/{name} is there no more, and stays gone: only its owner can create it again")
    if len(chosen.specs) > reissue.MOST:
        raise InvalidConfiguration(f"{len(chosen.specs)} specs differ; --apply takes {reissue.MOST} at most")
    if confirmed:
        reissue.send_specs(settings, url, tenant, chosen.specs)
    word = "re-issued" if confirmed else "would be re-issued"
    for name in chosen.specs:
        tell(f"replay: GitOpsDeployment/{name}: its spec then {word}")
    if chosen.specs and not confirmed:
        tell(f"replay: --confirm {'/'.join(tenant)} does it")
    elif chosen.specs:
        tell("replay: in force until a resource changes or its watcher lists it again, at its next start at the latest")

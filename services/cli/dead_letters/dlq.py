"""``gitopsctl dlq``: what consumers have given up: looked at, redriven, dropped."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

import typer

from services.cli.dead_letters.letter_judge import CLASSES, Judge
from services.cli.dead_letters.redrive import send_letters
from services.cli.dead_letters.stored_letters import (
    LetterFilter,
    StoredLetter,
    mark_done,
    read_letters,
    row_of,
)
from services.cli.filters import SINCE, TENANT, parse_since, parse_tenant
from services.cli.output import OUTPUT, Output, Row, print_rows, tell
from services.cli.sending import publishing
from services.common.avro import AvroCodec, SchemaRegistry, value_subject
from services.common.errors import InvalidConfiguration, Poison, Retry, Unavailable
from services.common.kafka import FLEET_ORDERS, Publisher, log_of
from services.common.messages import DeadLetter
from services.common.settings import KafkaSettings, load
from services.common.telemetry import TRACEPARENT

app = typer.Typer(help="Dead letters.", no_args_is_help=True)

IDS = typer.Argument(None, metavar="[ID]...", help="Of dead letters, as 'dlq list' shows them.")
TOPIC = typer.Option("", "--topic", help="Only of messages of this topic.")
SERVICE = typer.Option("", "--service", help="Only those that this service has given up.")
REASON = typer.Option("", "--reason", help="Only those whose reason contains this.")
DRY_RUN = typer.Option(False, "--dry-run", help="Only tell what would be done.")
EVERY = typer.Option(False, "--all", help="All dead letters.")
DATABASE = typer.Option(
    None, "--url", envvar="DATABASE_OWNER_URL", help="Of the database; for letters of streamed rows."
)
LIST_COLUMNS = {
    "id": "id",
    "failedAt": "failed at",
    "service": "service",
    "message": "message",
    "tenant": "tenant",
    "done": "done",
    "reason": "reason",
}
VERDICT_COLUMNS = {"id": "id", "message": "message", "tenant": "tenant", "verdict": "verdict"}
LEFT_BEHIND = 1
"""Exit code."""
SHOWN_BYTES = 1024
"""Of a message that cannot be decoded."""


@app.command(name="list")
def list_letters(
    *,
    topic: str = TOPIC,
    service: str = SERVICE,
    tenant: str | None = TENANT,
    reason: str = REASON,
    since: str | None = SINCE,
    every: bool = typer.Option(False, "--all", help="Also those that were redriven or dropped."),
    output: Output = OUTPUT,
) -> None:
    """List the dead letters about which nothing was done yet, oldest first."""
    settings = load(KafkaSettings)
    wanted = _filter((), topic, service, tenant, reason, since)
    found = read_letters(settings, SchemaRegistry(settings), wanted, with_content=False)
    rows = [_row(stored) for stored in found if every or not stored.done]
    print_rows(rows, LIST_COLUMNS, output, nothing="there are no dead letters")


@app.command()
def show(ids: list[str] = typer.Argument(..., metavar="ID..."), output: Output = OUTPUT) -> None:  # noqa: B008 - typer's way
    """Show dead letters with their messages: decoded if that is possible by now, else their first bytes as base64.

    What was sealed stays sealed. A table would not hold it: YAML is shown instead.
    """
    settings = load(KafkaSettings)
    registry = SchemaRegistry(settings)
    found = read_letters(settings, registry, LetterFilter(tuple(ids)))
    rows = [_row(stored) | _content(stored.letter, registry) for stored in found]
    print_rows(rows, LIST_COLUMNS, Output.YAML if output is Output.TABLE else output, nothing="")


@app.command()
def redrive(  # noqa: PLR0913 - one for each option
    ids: list[str] | None = IDS,
    *,
    topic: str = TOPIC,
    service: str = SERVICE,
    tenant: str | None = TENANT,
    reason: str = REASON,
    since: str | None = SINCE,
    every: bool = EVERY,
    dry_run: bool = DRY_RUN,
    output: Output = OUTPUT,
    url: str | None = DATABASE,
) -> None:
    """Send messages again to where they were consumed, oldest first, once what was wrong has been mended.

    A tenant's changes keep their order: a message is not sent if its log has a newer one about the same resource, if
    that cannot be known any more, if its log has another one in its place, or if it still cannot be understood. Of a
    streamed row Connect is asked for the row as it is now. Exit code 1 if one stays, or would stay.
    """
    settings = load(KafkaSettings)
    registry = SchemaRegistry(settings)
    wanted = _filter(tuple(ids or ()), topic, service, tenant, reason, since)
    found = _read_meant(settings, registry, wanted, every=every, with_content=True)
    with Judge(settings, registry) as judge:
        refused = judge.refusals(found, has_database=url is not None)
        allowed = [stored for stored in found if not refused[stored.id]]

        def send(publisher: Publisher) -> None:
            refused.update(send_letters(publisher, allowed, judge, registry, url))

        if allowed and not dry_run:
            publishing(settings, send)
    word = "would be redriven" if dry_run else "redriven"
    verdicts = {each.id: f"stays: {refused[each.id]}" if refused[each.id] else word for each in found}
    rows = [_verdict(stored, verdicts[stored.id]) for stored in found]
    print_rows(rows, VERDICT_COLUMNS, output, nothing="no dead letter matches")
    stay = sum(bool(refused[each.id]) for each in found)
    tell(f"dlq: {len(found) - stay} of {len(found)} {word}{f'; left behind: {stay}' if stay else ''}")
    if stay:
        raise typer.Exit(LEFT_BEHIND)


@app.command()
def drop(  # noqa: PLR0913 - one for each option
    ids: list[str] | None = IDS,
    *,
    topic: str = TOPIC,
    service: str = SERVICE,
    tenant: str | None = TENANT,
    reason: str = REASON,
    since: str | None = SINCE,
    every: bool = EVERY,
    dry_run: bool = DRY_RUN,
    output: Output = OUTPUT,
) -> None:
    """Mark dead letters as done with: they are listed no more. The topic keeps them as long as all others."""
    settings = load(KafkaSettings)
    wanted = _filter(tuple(ids or ()), topic, service, tenant, reason, since)
    found = _read_meant(settings, SchemaRegistry(settings), wanted, every=every, with_content=False)

    def mark_all(publisher: Publisher) -> None:
        for stored in found:
            mark_done(publisher, stored, "dropped")

    if found and not dry_run:
        publishing(settings, mark_all)
    word = "would be dropped" if dry_run else "dropped"
    print_rows([_verdict(each, word) for each in found], VERDICT_COLUMNS, output, nothing="no dead letter matches")
    tell(f"dlq: {len(found)} {word}")


def _filter(
    ids: tuple[str, ...], topic: str, service: str, tenant: str | None, reason: str, since: str | None
) -> LetterFilter:
    return LetterFilter(
        ids,
        topic,
        service,
        "/".join(parse_tenant(tenant)) if tenant is not None else "",
        reason,
        parse_since(since, datetime.now(UTC)) if since is not None else None,
    )


def _read_meant(
    settings: KafkaSettings, registry: SchemaRegistry, wanted: LetterFilter, *, every: bool, with_content: bool
) -> list[StoredLetter]:
    """Those that something shall be done about. Raises InvalidConfiguration if that is not said, or one is unknown."""
    if wanted == LetterFilter() and not every:
        raise InvalidConfiguration("which dead letters? Name them, give a filter, or --all")
    found = read_letters(settings, registry, wanted, with_content=False)
    meant = [stored for stored in found if wanted.ids or not stored.done]
    if not with_content or not meant:
        return meant
    return read_letters(settings, registry, LetterFilter(tuple(stored.id for stored in meant)))


def _row(stored: StoredLetter) -> dict[str, Any]:
    letter = stored.letter
    return {
        "id": stored.id,
        "failedAt": letter.failed_at,
        "service": letter.service,
        "message": _place(letter),
        "tenant": stored.tenant,
        "done": stored.done,
        "reason": letter.error,
    }


def _verdict(stored: StoredLetter, verdict: str) -> Row:
    return {"id": stored.id, "message": _place(stored.letter), "tenant": stored.tenant, "verdict": verdict}


def _place(letter: DeadLetter) -> str:
    return f"{letter.topic}[{letter.partition}]@{letter.offset}"


def _content(letter: DeadLetter, registry: SchemaRegistry) -> dict[str, Any]:
    content = _decoded(letter, registry)
    shown = {"traceparent": letter.headers.get(TRACEPARENT, b"").decode(errors="replace")}
    shown["key"] = (letter.key or b"").decode(errors="backslashreplace")
    if content:
        return shown | {"content": content}
    return shown | {
        "bytes": len(letter.value or b""),
        "base64": b64encode((letter.value or b"")[:SHOWN_BYTES]).decode(),
    }


def _decoded(letter: DeadLetter, registry: SchemaRegistry) -> dict[str, Any]:
    """Its message; empty if it cannot be understood. Raises Unavailable."""
    try:
        message = CLASSES.get(log_of(letter.topic))
        if message is None:
            return dict(row_of(letter.value, registry))
        codec: AvroCodec[Any] = AvroCodec(registry, message, value_subject(log_of(letter.topic)))
        decoded = codec.decode_message(letter.value)
        name = "order" if letter.topic == FLEET_ORDERS else "event"
        part = getattr(decoded, name)
        return asdict(decoded) | {name: {"type": type(part).__name__} | asdict(part)}
    except Poison:
        return {}
    except Retry as error:
        raise Unavailable(f"{registry.name}: {error}") from error

"""``gitopsctl engines remedies``: what planners do by themselves for engine instances that are ill, and have done."""

from __future__ import annotations

import typer

from services.cli.database_connection import READING_URL, TIMEOUT, connected
from services.cli.output import OUTPUT, Output, Row, print_rows
from services.common.startup import await_dependency
from services.planner.database.remedy_queries import load_remediations
from services.planner.domain.fleet.remediation.remediation_rows import Remediation

PAST = typer.Option(False, "--past", help="What was done until now instead, for as long as the audit is kept.")
COLUMNS = {
    "instance": "instance",
    "state": "state",
    "remedy": "remedy",
    "outcome": "outcome",
    "cordoned": "cordoned",
    "since": "since",
    "nextAt": "next look",
    "message": "message",
}
PAST_COLUMNS = {"at": "at", "instance": "instance", "message": "message"}
RECORDS = "SELECT created_at, engine_instance_id, message FROM past_remedies ORDER BY created_at, generation"
"""A view of the audit."""
REPLACED = """
SELECT r.engine_instance_id
  FROM remediations r
  JOIN engine_instances replaced ON replaced.id = r.engine_instance_id AND replaced.state <> 'retired'
  JOIN engine_instances other ON other.id = r.replaced_by AND other.state <> 'retired'
"""
"""Instances that have another in their place, though they may be well again."""


def list_remedies(
    output: Output = OUTPUT, url: str = READING_URL, timeout: float = TIMEOUT, *, past: bool = PAST
) -> None:
    """List engine instances that are ill or recovering, with what is done for each, and when what is next.

    And those that are well, as long as there is another that was ordered in their place.
    """
    if past:
        rows = await_dependency("database", lambda: _past(url), timeout)
        print_rows(rows, PAST_COLUMNS, output, nothing="nothing was done for any engine instance")
        return
    rows = await_dependency("database", lambda: _present(url), timeout)
    print_rows(rows, COLUMNS, output, nothing="nothing is done for any engine instance")


def remedy_row(row: Remediation) -> Row:
    """A remediation as it is shown; an outcome is shown only if it is of the newest remedy."""
    is_of_newest = row.told_number == row.number
    return {
        "instance": row.engine_instance_id,
        "state": row.state,
        "remedy": row.rung,
        "outcome": row.told_outcome if is_of_newest else "",
        "cordoned": row.is_cordoned,
        "since": row.since,
        "nextAt": row.due_at,
        "message": row.message,
        "tried": list(row.remedies),
        "replacedBy": row.replaced_by,
        "outcomeMessage": row.told_message if is_of_newest else "",
    }


def _present(url: str) -> list[Row]:
    with connected(url) as connection:
        rows = load_remediations(connection).values()
        spare = {instance for (instance,) in connection.execute(REPLACED)}
        return [remedy_row(row) for row in rows if row.state != "well" or row.engine_instance_id in spare]


def _past(url: str) -> list[Row]:
    with connected(url) as connection:
        found = connection.execute(RECORDS).fetchall()
    return [{"at": at, "instance": instance, "message": message} for at, instance, message in found]

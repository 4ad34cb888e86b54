"""``gitopsctl engines orders``: who ordered what of the fleet, and what became of it."""

from __future__ import annotations

import typer

from services.cli.database_connection import READING_URL, TIMEOUT, connected
from services.cli.output import OUTPUT, Output, Row, print_rows
from services.common.startup import await_dependency

SUBJECT = typer.Option(
    "", "--subject", help="Only of this instance, engine cluster, workspace or tenant (WORKSPACE/NAMESPACE)."
)
LIMIT = typer.Option(100, "--limit", min=1, max=100_000, help="How many at most, the newest first.")
ORDERS = """
SELECT id, kind, subject, arguments, actor, outcome, message, ordered_at, decided_at
  FROM fleet_orders
 WHERE %s IN ('', subject)
 ORDER BY decided_at DESC, ordered_at DESC, id
 LIMIT %s
"""
COLUMNS = {
    "orderedAt": "ordered at",
    "actor": "by",
    "kind": "order",
    "subject": "subject",
    "arguments": "arguments",
    "outcome": "outcome",
    "message": "message",
}


def list_orders(
    subject: str = SUBJECT,
    limit: int = LIMIT,
    output: Output = OUTPUT,
    url: str = READING_URL,
    timeout: float = TIMEOUT,
) -> None:
    """List orders about the fleet, the newest first: who gave them, and what was decided; the fleet's audit."""
    rows = await_dependency("database", lambda: _orders(url, subject, limit), timeout)
    print_rows(rows, COLUMNS, output, nothing="no order is recorded")


def _orders(url: str, subject: str, limit: int) -> list[Row]:
    with connected(url) as connection:
        return [
            {
                "id": str(order_id),
                "orderedAt": ordered_at,
                "decidedAt": decided_at,
                "actor": actor,
                "kind": kind,
                "subject": about,
                "arguments": arguments,
                "outcome": outcome,
                "message": message,
            }
            for order_id, kind, about, arguments, actor, outcome, message, ordered_at, decided_at in connection.execute(
                ORDERS, (subject, limit)
            )
        ]

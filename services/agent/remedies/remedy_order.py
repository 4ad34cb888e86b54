"""An order of a remedy, parsed from a row of the instance. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

import orjson

from services.common.errors import Permanent
from services.common.json_values import dict_of, text_of
from services.common.messages import EngineResource, Remedy

DIGITS = 14
"""Digits of milliseconds since 1970, until the year 5138."""


@dataclass(frozen=True, slots=True)
class RemedyOrder:
    """A remedy to execute once."""

    number: int
    """Milliseconds since 1970; greater than the number of any earlier order."""
    remedy: Remedy

    @property
    def ordered_at(self) -> datetime:
        """The time of the order in whole seconds, like times of API servers.

        Younger objects were made after the order.
        """
        return datetime.fromtimestamp(self.number // 1000, UTC)


def number_in(text: str) -> int | None:
    """The number of an order; None if the text is none."""
    return int(text) if text.isdecimal() and len(text) <= DIGITS else None


def order_of(row: EngineResource) -> RemedyOrder:
    """The order in a row. Raises Permanent if there is none, or if this build does not know the remedy."""
    number = number_in(row.name)
    try:
        remedy = Remedy(text_of(dict_of(orjson.loads(row.manifest)).get("remedy")))
    except ValueError as error:
        raise Permanent(f"not a remedy that this agent knows: {error}") from error
    if number is None:
        raise Permanent("an order without a number")
    return RemedyOrder(number, remedy)

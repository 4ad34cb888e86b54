"""An order of a remedy, as a row of the instance says it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

import orjson

from services.common.errors import Permanent
from services.common.json_values import dict_of, text_of
from services.common.messages import EngineResource, Remedy

DIGITS = 14
"""Of milliseconds since 1970, until the year 5138."""


@dataclass(frozen=True, slots=True)
class RemedyOrder:
    """What is to be done, once."""

    number: int
    """Milliseconds since 1970, and more than that of any order before."""
    remedy: Remedy

    @property
    def ordered_at(self) -> datetime:
        """To the second, as API servers tell time: what is younger was made after the order."""
        return datetime.fromtimestamp(self.number // 1000, UTC)


def number_in(text: str) -> int | None:
    """The number of an order; None if the text is none."""
    return int(text) if text.isdecimal() and len(text) <= DIGITS else None


def order_of(row: EngineResource) -> RemedyOrder:
    """The order that a row is. Raises Permanent if it is none, or a remedy that this build does not know."""
    number = number_in(row.name)
    try:
        remedy = Remedy(text_of(dict_of(orjson.loads(row.manifest)).get("remedy")))
    except ValueError as error:
        raise Permanent(f"not a remedy that this agent knows: {error}") from error
    if number is None:
        raise Permanent("an order without a number")
    return RemedyOrder(number, remedy)

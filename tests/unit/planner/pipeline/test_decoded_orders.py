"""Orders as they come from the wire: what no column can hold is given up before anything is planned."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from services.common.errors import Poison
from services.common.kafka import FLEET_ORDERS
from services.common.messages import FleetOrder
from services.planner.pipeline.decode import TICK, decode_event
from tests.unit.common.kafka.messages import consumed
from tests.unit.planner.fleet.rolled import START
from tests.unit.planner.fleet.test_fleet_orders import ordered
from tests.unit.planner.given import at


class Known:
    """The codec of a topic that holds one order."""

    def __init__(self, order: FleetOrder) -> None:
        self._order = order

    def decode_message(self, _: bytes | None) -> FleetOrder:
        return self._order


def decoded(order: FleetOrder, taken: int = 60) -> Any:
    """As a planner reads it that the brokers took at this second."""
    message = consumed(FLEET_ORDERS, 0, b"", b"", timestamp=at(taken).timestamp())
    return decode_event(message, {FLEET_ORDERS: cast("Any", Known(order))}).message


def test_rollout_when_its_order_is_read_then_it_is_as_it_was_given() -> None:
    order = ordered(replace(START, rings=("canary", "general")))
    assert decoded(order) == order


SENT_AT = {"now": 60, "by a slow clock, or before": 50, "by a clock that is an hour ahead": 3600}


@pytest.mark.parametrize("second", SENT_AT.values(), ids=SENT_AT)
def test_order_when_its_sender_has_another_clock_then_it_is_of_no_later_than_the_brokers_took_it(
    second: int,
) -> None:
    order = ordered(START, second)
    known = decoded(order)
    assert (known.id, known.order) == (order.id, order.order)
    assert known.ordered_at == min(order.ordered_at, at(60) + TICK)
    assert decoded(known, taken=7200) == known, "sent again it is the same"


@pytest.mark.parametrize("order", [replace(START, version="\0"), replace(START, rings=("canary", "a\0b"))])
def test_rollout_when_a_name_holds_what_no_column_can_then_its_order_is_given_up(order: Any) -> None:
    with pytest.raises(Poison, match="NUL"):
        decoded(ordered(order))

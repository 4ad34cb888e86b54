"""Orders about one engine instance itself: rows that are of no tenant, in force as long as they are there.

Called by ``owned_instances``, which passes all other rows to the ``InstanceController``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import structlog

from services.agent.reconcile.orphans import Orphans
from services.agent.remedies.remedies import Remedies
from services.common.errors import Permanent
from services.common.messages import ORPHAN_REMOVAL, REMEDY, EngineResource

log = structlog.get_logger(__name__)


def is_order(row: EngineResource) -> bool:
    """Whether ``row`` is about the instance itself, and about no object of it."""
    return row.kind in {ORPHAN_REMOVAL, REMEDY}


class InstanceOrders:
    """Passes orders to what carries them out: approved removals to ``orphans``, remedies to ``remedies``."""

    def __init__(self, instance: str, orphans: Orphans, remedies: Remedies, review_orphans: Callable[[], None]) -> None:
        """``review_orphans`` is called when another removal is approved, or refused."""
        self._instance, self._orphans, self._remedies = instance, orphans, remedies
        self._review_orphans = review_orphans

    def load_orders(self, orders: Iterable[EngineResource]) -> None:
        """Take the orders that are in force when the instance is taken over, before any work on it begins."""
        for order in orders:
            self._accept_order(order)

    def submit_order(self, order: EngineResource) -> None:
        """Take the newest state of an order."""
        self._accept_order(order)
        if order.kind == ORPHAN_REMOVAL:
            self._review_orphans()

    def withdraw_order(self, order: EngineResource) -> None:
        """Carry out ``order`` no longer: its row is gone."""
        if order.kind == ORPHAN_REMOVAL:
            self._orphans.withdraw_approval(order)
        else:
            self._remedies.forget_row(order)

    def _accept_order(self, order: EngineResource) -> None:
        if order.kind == ORPHAN_REMOVAL:
            self._approve_removal(order)
        else:
            self._remedies.submit_row(order)

    def _approve_removal(self, approval: EngineResource) -> None:
        try:
            self._orphans.approve_removal(approval)
        except Permanent as error:
            log.warning("refused", instance=self._instance, kind=approval.kind, name=approval.name, error=str(error))

"""Which resources a resync marker removes: those that its list lacks, if that is plausible or was approved.

An approval is the marker itself, sent again with the digest of what its sender was shown. It removes what was shown, or
less if some of that has been seen meanwhile; never more.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from uuid import UUID

import orjson

from services.common.json_values import canonical, digest
from services.planner.domain.events import SweepScope
from services.planner.rows import RefusedSweep


def refuse_sweep(scope: SweepScope, known: int, unseen: Collection[UUID], at: datetime) -> RefusedSweep:
    """What is remembered of a marker that would remove ``unseen`` of ``known`` resources."""
    subjects = canonical(sorted(map(str, unseen)))
    named = digest(f"{scope.source}/{scope.kind}/{scope.partition}/{scope.epoch}/{subjects}")
    return RefusedSweep(scope.source, scope.kind, scope.partition, scope.epoch, known, subjects, named, at)


def is_approved(approved: str, refused: RefusedSweep | None, unseen: Collection[UUID]) -> bool:
    """Whether an operator has approved that these go.

    Args:
        approved: digest that came with the marker; empty: it is no approval.
        refused: what was refused last, and shown.
        unseen: what would be removed now.
    """
    if not approved or refused is None or refused.digest != approved:
        return False
    return {str(subject) for subject in unseen} <= set(orjson.loads(refused.subjects))

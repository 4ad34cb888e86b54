"""Registry entry of PromotionRun."""

from __future__ import annotations

from pathlib import Path

from services.common.messages import UnownedKind
from services.kinds.promotion_run.catalogue import ENTRIES
from services.kinds.promotion_run.model import PROMOTION_RUN, PromotionRunSpec, PromotionRunStatus
from services.kinds.promotion_run.rows import AUTOMATED_LABEL, concluded, recalled_progress
from services.kinds.promotion_run.status import run_status
from services.kinds.shared.catalogue import ERROR
from services.kinds.shared.kind import Column, CustomKind, Reference, WaitExample, condition_column
from services.kinds.shared.projection import Projection
from services.kinds.snapshot.model import SNAPSHOT


def is_automated_label(key: str) -> bool:
    """Whether it tells by whom a run was made."""
    return key == AUTOMATED_LABEL


_FIRST_FAILED = ".status.environmentStatus[?(@.status=='Failed')]"
"""The API server prints the first one of several that a path finds."""
TIMES_WITH_COMPLETE = 10
"""As many as may be open are the runs that a tenant may have in all."""

KIND = CustomKind(
    resource=PROMOTION_RUN,
    default_quota=200,
    counted=f"that are not complete ({TIMES_WITH_COMPLETE} times as many with those that are)",
    description="Brings a snapshot to an environment, or from environment to environment; deleting it ends it.",
    purpose="promotes a snapshot to one environment, or along their graph",
    example=Path(__file__).with_name("example.yaml"),
    spec=PromotionRunSpec,
    status=PromotionRunStatus,
    columns=(
        Column("Application", ".spec.application"),
        Column("Snapshot", ".spec.snapshot"),
        Column("State", ".status.state"),
        Column("Result", ".status.completionResult"),
        # A run goes on after the environments that have not failed, so its last step may be a success.
        Column("Failed", f"{_FIRST_FAILED}.environmentName"),
        Column("Environment", ".status.environmentStatus[-1:].environmentName"),
        Column("Message", ".status.environmentStatus[-1:].displayStatus"),
        Column("Failure", f"{_FIRST_FAILED}.displayStatus", is_wide=True),
        condition_column("Error", ERROR, "message", is_wide=True),
    ),
    short_names=("apr", "promotion"),
    waits=(
        WaitExample("it has ended, with success or without", "jsonpath='{.status.state}'=Complete", minutes=25),
        WaitExample("it has succeeded", "jsonpath='{.status.completionResult}'=Success", minutes=25),
    ),
    catalogue=ENTRIES,
    reference=Reference("snapshot", SNAPSHOT),
    projection=Projection(labels=is_automated_label),
    unowned=(UnownedKind.BINDING,),
    audited=True,
    concluded=concluded,
    compile_status=run_status,
    recalls_status=True,
    recalled_progress=recalled_progress,
)

"""What an Application says about whether its Argo CD does its work. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from services.common.json_values import dict_of, dicts_of, text_of
from services.common.kubernetes import Manifest

REFRESH = "argocd.argoproj.io/refresh"
"""Annotation that asks the application controller to compare; it takes that off again."""
SKIP = "argocd.argoproj.io/skip-reconcile"
COMPARISON_ERROR, INVALID_SPEC_ERROR = "ComparisonError", "InvalidSpecError"
_REPO_SERVER = re.compile(r"code = (Unavailable|DeadlineExceeded)\b")
"""How gRPC says that the repo server itself does not answer; what git servers say has another code."""


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """Of one Application."""

    created_at: datetime | None = None
    reconciled_at: datetime | None = None
    """When it was compared last, by the controller's clock."""
    comparison_error: str = ""
    spec_errors: tuple[str, ...] = ()
    """Why it is not compared at all."""

    @property
    def lacks_repo_server(self) -> bool:
        """Whether it was not compared because the repo server does not answer."""
        return _REPO_SERVER.search(self.comparison_error) is not None


NOT_RECONCILED = Reconciliation()


def reconciliation_of(manifest: Manifest) -> Reconciliation:
    """As an Application's manifest has it."""
    status = dict_of(manifest.get("status"))
    conditions = dicts_of(status.get("conditions"))
    return Reconciliation(
        created_at=time_of(manifest["metadata"].get("creationTimestamp")),
        reconciled_at=time_of(status.get("reconciledAt")),
        comparison_error=next(_messages(conditions, COMPARISON_ERROR), ""),
        spec_errors=tuple(_messages(conditions, INVALID_SPEC_ERROR)),
    )


def _messages(conditions: Iterable[Manifest], type_: str) -> Iterator[str]:
    return (text_of(each.get("message")) for each in conditions if each.get("type") == type_)


def time_of(value: object) -> datetime | None:
    """The time that Argo CD wrote; None if that is none, or of no time zone."""
    try:
        read = datetime.fromisoformat(text_of(value))
    except ValueError:
        return None
    return read if read.tzinfo is not None else None

"""What an Application shows of whether its Argo CD works. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from services.common.json_values import dict_of, dicts_of, text_of
from services.common.kubernetes import Manifest

REFRESH = "argocd.argoproj.io/refresh"
"""Annotation that requests a comparison. The application controller removes it."""
SKIP = "argocd.argoproj.io/skip-reconcile"
COMPARISON_ERROR, INVALID_SPEC_ERROR = "ComparisonError", "InvalidSpecError"
_ANSWER = re.compile(
    r"(?:Failed to load target state: )?(?:failed to generate manifest for source \d+ of \d+: )?rpc error: code = (\w+)"
)
"""What gRPC says of the repo server's answer. The rest of the message may come from a tenant, or its git server."""
UNAVAILABLE, TOO_LATE = "Unavailable", "DeadlineExceeded"


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """The reconciliation of one Application."""

    created_at: datetime | None = None
    reconciled_at: datetime | None = None
    """When it was last compared, by the controller's clock."""
    comparison_error: str = ""
    spec_errors: tuple[str, ...] = ()
    """Why Argo CD does not compare it. Then ``reconciled_at`` stays as it is, or None."""
    asked_at: datetime | None = None
    """When a comparison was requested, by the API server's clock; None: it was not, or the time is unknown."""

    @property
    def is_refused(self) -> bool:
        """Whether it is not compared at all, because its project does not permit its repository or cluster."""
        return bool(self.spec_errors)

    @property
    def lacks_repo_server(self) -> bool:
        """Whether it was not compared because there is no repo server."""
        return self._code == UNAVAILABLE

    @property
    def lacks_answer(self) -> bool:
        """Whether it was not compared because the repo server does not exist, or does not answer in time.

        A repo server may also not answer because its git server does not.
        """
        return self._code in {UNAVAILABLE, TOO_LATE}

    @property
    def _code(self) -> str:
        found = _ANSWER.match(self.comparison_error)
        return found.group(1) if found is not None else ""


NOT_RECONCILED = Reconciliation()


def reconciliation_of(manifest: Manifest) -> Reconciliation:
    """The reconciliation in an Application's manifest."""
    status = dict_of(manifest.get("status"))
    conditions = dicts_of(status.get("conditions"))
    return Reconciliation(
        created_at=time_of(manifest["metadata"].get("creationTimestamp")),
        reconciled_at=time_of(status.get("reconciledAt")),
        comparison_error=next(_messages(conditions, COMPARISON_ERROR), ""),
        spec_errors=tuple(_messages(conditions, INVALID_SPEC_ERROR)),
        asked_at=_asked_at(manifest["metadata"]),
    )


def _asked_at(meta: Manifest) -> datetime | None:
    """When the API server last saw a writer of the annotation that requests a comparison.

    That is the latest possible time: a later change by the same writer updates the time of both.
    """
    times = [time_of(each.get("time")) for each in dicts_of(meta.get("managedFields")) if _has_asked(each)]
    return min((each for each in times if each is not None), default=None)


def _has_asked(managed: Manifest) -> bool:
    """Whether these managed fields contain that annotation."""
    meta = dict_of(dict_of(managed.get("fieldsV1")).get("f:metadata"))
    return f"f:{REFRESH}" in dict_of(meta.get("f:annotations"))


def _messages(conditions: Iterable[Manifest], type_: str) -> Iterator[str]:
    return (text_of(each.get("message")) for each in conditions if each.get("type") == type_)


def time_of(value: object) -> datetime | None:
    """The time that Argo CD wrote; None if it is invalid, or has no time zone."""
    try:
        read = datetime.fromisoformat(text_of(value))
    except ValueError:
        return None
    return read if read.tzinfo is not None else None

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
_ANSWER = re.compile(
    r"(?:Failed to load target state: )?(?:failed to generate manifest for source \d+ of \d+: )?rpc error: code = (\w+)"
)
"""What gRPC says of the repo server's answer. Whatever follows may be a tenant's words, or its git server's."""
UNAVAILABLE, TOO_LATE = "Unavailable", "DeadlineExceeded"


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """Of one Application."""

    created_at: datetime | None = None
    reconciled_at: datetime | None = None
    """When it was compared last, by the controller's clock."""
    comparison_error: str = ""
    spec_errors: tuple[str, ...] = ()
    """Why Argo CD looks at it and does not compare it: then ``reconciled_at`` stays as it is, or None."""
    asked_at: datetime | None = None
    """When it was asked to be compared, by the API server's clock; None: it was not, or nobody knows when."""

    @property
    def is_refused(self) -> bool:
        """Whether it is not compared at all: its repository or its cluster are none that its project has."""
        return bool(self.spec_errors)

    @property
    def lacks_repo_server(self) -> bool:
        """Whether it was not compared because there is no repo server."""
        return self._code == UNAVAILABLE

    @property
    def lacks_answer(self) -> bool:
        """Whether it was not compared because the repo server is not there, or does not answer in time.

        The latter may be for its git server, too, which does not.
        """
        return self._code in {UNAVAILABLE, TOO_LATE}

    @property
    def _code(self) -> str:
        found = _ANSWER.match(self.comparison_error)
        return found.group(1) if found is not None else ""


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
        asked_at=_asked_at(manifest["metadata"]),
    )


def _asked_at(meta: Manifest) -> datetime | None:
    """When the API server has seen the annotation that asks for a comparison, whoever wrote it.

    That is at the latest: what else the same writer has changed since is of a later time, and counts for both.
    """
    times = [time_of(each.get("time")) for each in dicts_of(meta.get("managedFields")) if _has_asked(each)]
    return min((each for each in times if each is not None), default=None)


def _has_asked(managed: Manifest) -> bool:
    """Whether that annotation is among the fields that somebody has written."""
    meta = dict_of(dict_of(managed.get("fieldsV1")).get("f:metadata"))
    return f"f:{REFRESH}" in dict_of(meta.get("f:annotations"))


def _messages(conditions: Iterable[Manifest], type_: str) -> Iterator[str]:
    return (text_of(each.get("message")) for each in conditions if each.get("type") == type_)


def time_of(value: object) -> datetime | None:
    """The time that Argo CD wrote; None if that is none, or of no time zone."""
    try:
        read = datetime.fromisoformat(text_of(value))
    except ValueError:
        return None
    return read if read.tzinfo is not None else None

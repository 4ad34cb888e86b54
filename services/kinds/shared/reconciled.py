"""The pair of conditions with which environments and bindings show problems: ErrorOccurred and Reconciled.

Older clients read the first; the second distinguishes reasons. Both have the same message.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

from services.kinds.shared.catalogue import ERROR, Entry, Reason, error
from services.kinds.shared.conditions import Condition, ConditionState, ConditionStates, Refused
from services.kinds.shared.incarnation import refusal_of
from services.kinds.shared.limits import Limits
from services.kinds.shared.resource import PlainResource

RECONCILED = "Reconciled"

MAX_LISTED = 10
"""Names in one message."""

INVALID_SPEC = Entry(
    RECONCILED,
    "False",
    Reason.INVALID_SPEC,
    "{detail}",
    "A field of the spec has a wrong type or is too long. New objects with such a field are refused.",
    "Correct the field.",
)
OVER_QUOTA = Entry(
    RECONCILED,
    "False",
    Reason.QUOTA_EXCEEDED,
    "quota exceeded: {detail}",
    "Your namespace has more resources, or larger ones, than it may have. The oldest ones work; this one does not.",
    "Delete what you do not need; this resource is looked at again when there is room. Or ask your operators for more.",
)
NAME_TAKEN = Entry(
    RECONCILED,
    "False",
    "NameTaken",
    "{kind} '{name}' is made for another resource of this namespace already; give one of the two another name",
    "Two resources would make an object of the same name. The older one has it; the object is not made for this one.",
    "Delete one of the two, and create it under another name.",
)
NAME_EXISTS = Entry(
    RECONCILED,
    "False",
    "NameExists",
    "{kind} '{name}' exists already and was not made for this resource; delete it, or give this resource another name",
    "An object of the name that this resource needs was made by somebody else. It is left as it is, so what it stands "
    "for is missing here.",
    "Delete the object, if nobody needs it; the right one is made then. Or create this resource under another name.",
)
PAIR_RESOLVED = (
    Entry(ERROR, "False", f"{ERROR}Resolved", "", "There was an error; it is gone."),
    Entry(
        RECONCILED,
        "True",
        "{reason before}Resolved",
        "",
        "There was an error, of which this was the reason; it is gone.",
    ),
)


def not_reconciled(reason: str, message: str, meaning: str, remedy: str) -> Entry:
    """A problem, as the condition that has its reason."""
    return Entry(RECONCILED, "False", reason, message, meaning, remedy)


def in_pairs(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    """Both conditions of each problem, for a catalogue."""
    pairs = ((error(entry.message, entry.meaning, entry.remedy), entry) for entry in entries)
    return tuple(condition for pair in pairs for condition in pair)


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem of a resource, as its user sees it."""

    reason: str
    message: str

    @classmethod
    def of(cls, entry: Entry, **values: object) -> Self:
        """A problem of the catalogue, with its parts filled in."""
        return cls(entry.reason, entry.text(**values))

    @classmethod
    def shown_by(cls, resource: PlainResource) -> Self | None:
        """The problem in a row; None: there is none."""
        refusal = refusal_of(resource)
        return cls(refusal.reason, refusal.message) if refusal is not None else None

    @property
    def refusal(self) -> Refused:
        """The problem as rows store it."""
        return Refused("False", self.reason, self.message)

    @property
    def pair(self) -> dict[str, ConditionState]:
        """Both conditions, while the problem lasts."""
        return {ERROR: ("True", ERROR, self.message), RECONCILED: ("False", self.reason, self.message)}


def beyond_quota(resource: PlainResource, limits: Limits) -> Refused:
    """The problem of a resource above its tenant's quota."""
    return Refused(OVER_QUOTA.status, OVER_QUOTA.reason, limits.message(resource.kind))


def listed(names: Iterable[str], unnamed: int = 0) -> str:
    """Names for a message: the first ones, and how many there are besides, with those that are ``unnamed``."""
    ordered = sorted(names)
    beyond = max(len(ordered) - MAX_LISTED, 0) + unnamed
    return ", ".join(ordered[:MAX_LISTED]) + (f" and {beyond} more" if beyond > 0 else "")


def pair_without_problem(previous: Sequence[Condition]) -> ConditionStates:
    """The two conditions, resolved, as far as they were written before."""
    resolved = {ERROR: "False", RECONCILED: "True"}
    return {
        condition["type"]: (resolved[condition["type"]], _resolved(condition["reason"]), "")
        for condition in previous
        if condition["type"] in resolved
    }


def _resolved(reason: str) -> str:
    """The reason after the problem is resolved."""
    return f"{reason.removesuffix('Resolved')}Resolved"

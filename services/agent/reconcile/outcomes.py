"""Outcomes of reconciling one object."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from services.common.messages import Checked


@dataclass(frozen=True, slots=True)
class Done:
    """Nothing is left to do."""

    changed: bool = False
    """A call was necessary."""
    created: bool = False
    forced: bool = False
    """Its end had to be forced: finalizers were removed, or something was left behind on another cluster."""
    applied: bool = True
    """The object is as the row desires; False if the row is not about an object's content, or failed its check."""
    is_provisional: bool = False
    """The check of its repository has not ended: a failure may follow."""
    checked: Checked | None = None
    """Result of the credential check, for rows that have one."""
    version: str = ""
    """Of what was applied, where the row's digest alone does not tell."""


@dataclass(frozen=True, slots=True)
class InProgress:
    """A deletion is going on; requeue the object at ``deadline``."""

    deadline: datetime


@dataclass(frozen=True, slots=True)
class Blocked:
    """Something else has to happen first, which queues the object again."""


Outcome = Done | InProgress | Blocked

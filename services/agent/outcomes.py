"""How work on one object can end."""

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
    checked: Checked | None = None
    """Outcome of the row's check, if it is of a kind that is checked."""
    version: str = ""
    """Of what was applied, where the row's digest alone does not tell."""


@dataclass(frozen=True, slots=True)
class Going:
    """It is on its way; look again at ``deadline`` at the latest."""

    deadline: datetime


@dataclass(frozen=True, slots=True)
class Aside:
    """Nothing can be done before something else has happened, which will mark the object; nobody waits for it."""


Outcome = Done | Going | Aside

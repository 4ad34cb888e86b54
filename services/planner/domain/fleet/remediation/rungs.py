"""The rungs of the ladder of remedies: who carries each out, and what planners make of it. Pure.

All that is particular to a rung is declared in its entry of :data:`RUNGS`. ``ladder.py`` says which rungs may help
against which reason, and in which order they are tried. Rows hold a rung's name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from services.common.messages import Remedy

Executor = Literal["agent", "provisioner", "planner", "unknown"]


@dataclass(frozen=True, slots=True)
class Rung:
    """One remedy of the ladder."""

    name: str
    """Its name in rows, in orders to agents and in the audit, and for operators."""
    executor: Executor
    """Who carries it out: the instance's agent, by an order; the provisioner that has installed the instance (of one
    that was installed by hand: nobody); or the planner itself. ``unknown``: this planner does not know the rung."""
    cool_down: float = 1.0
    """How long it may take to help, as a multiple of what a restart may take."""
    helps_while_down: bool = True
    """Whether it may help an instance that compares nothing at all."""
    takes_turn: bool = True
    """Whether other instances of the ring wait while it is carried out. A rung that does nothing to the instance itself
    harms nobody; and tenants may take long to leave."""
    cordons: bool = False
    """Whether the instance gets no new tenants from then on."""
    is_resumable: bool = True
    """Whether it goes on with what is left of its time when the instance was held, or healthy, for a moment."""


REFRESH = Rung(Remedy.REFRESH.value, "agent", cool_down=0.5, helps_while_down=False)
RESTART_CONTROLLER = Rung(Remedy.RESTART_CONTROLLER.value, "agent")
RESTART_REPO_SERVER = Rung(Remedy.RESTART_REPO_SERVER.value, "agent")
FLUSH_CACHE = Rung(Remedy.FLUSH_CACHE.value, "agent")
REAPPLY = Rung("ReapplyConfiguration", "provisioner", cool_down=2.0)
CORDON = Rung("Cordon", "planner", takes_turn=False, cordons=True)
EVACUATE = Rung("Evacuate", "planner", takes_turn=False, cordons=True, is_resumable=False)
REPLACE = Rung("Replace", "planner", cordons=True, is_resumable=False)

RUNGS: Mapping[str, Rung] = MappingProxyType(
    {
        rung.name: rung
        for rung in (
            REFRESH,
            RESTART_CONTROLLER,
            RESTART_REPO_SERVER,
            FLUSH_CACHE,
            REAPPLY,
            CORDON,
            EVACUATE,
            REPLACE,
        )
    }
)
"""All rungs, by their names."""


def rung_named(name: str) -> Rung:
    """The rung of this name. A newer planner may have written one that this planner does not know."""
    return RUNGS.get(name) or Rung(name, "unknown")

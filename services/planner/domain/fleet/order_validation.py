"""What operators' orders may name: words, and what there is of the fleet. Pure.

A refusal says what to give or to order instead.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from services.kinds.shared.text import MAX_LABEL
from services.planner.domain.fleet.fleet import Fleet
from services.planner.domain.fleet.rows import EngineClusterRow, EngineInstanceRow, Move, Refused

LABEL = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")
WORKSPACE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,41}[A-Za-z0-9])?")
"""As workspaces may be called (``WORKSPACE_NAME`` of the topics)."""


def shortened(given: str) -> str:
    """A word of an order, for a message: what is too long for a DNS label ends with "…"."""
    return given if len(given) <= MAX_LABEL else f"{given[:MAX_LABEL]}…"


def joined(*texts: str) -> str:
    """One message of the texts that are not empty."""
    return "; ".join(filter(None, texts))


def require_label(what: str, name: str) -> None:
    """Raises Refused if ``name`` is no DNS label."""
    if len(name) > MAX_LABEL or not LABEL.fullmatch(name):
        raise Refused(f"{what} is a DNS label: at most {MAX_LABEL} of a-z, 0-9 and '-', not '{shortened(name)}'")


def require_workspace(name: str) -> None:
    """Raises Refused if no workspace may be called so."""
    if not WORKSPACE.fullmatch(name):
        raise Refused(f"a workspace's name is at most 43 of A-Z, a-z, 0-9, '.', '_' and '-', not '{shortened(name)}'")


def require_one_of(what: str, value: str, known: Collection[str]) -> None:
    """Raises Refused if ``value`` is not ``known``."""
    if value not in known:
        others = f", only {', '.join(sorted(known))}" if known else ": none is known"
        raise Refused(f"there is no {what} '{shortened(value)}'{others}")


def require_version(engine: str, version: str, fleet: Fleet) -> None:
    """Raises Refused if agents do not work with it. Whether there are manifests of it, its provisioner knows."""
    if not fleet.knows_version(engine, version):
        raise Refused(
            f"'{shortened(version)}' is no version of {engine} that agents of this build work with, such as 3.2.11"
        )


def untested(engine: str, version: str, fleet: Fleet) -> str:
    """A warning if this build was not tested with the version that an order names; else empty."""
    return "" if fleet.is_tested(engine, version) else f"{version} was not tested with this build"


def known_cluster(name: str, fleet: Fleet) -> EngineClusterRow:
    """The engine cluster that an order names. Raises Refused if there is none."""
    if (known := fleet.clusters.get(name)) is None:
        raise Refused(
            f"there is no engine cluster '{shortened(name)}'; 'gitopsctl engine-clusters list' shows them, and "
            "'gitopsctl engine-clusters add' adds one"
        )
    return known


def known_instance(name: str, fleet: Fleet) -> EngineInstanceRow:
    """The engine instance that an order names. Raises Refused if there is none."""
    if (known := fleet.instances.get(name)) is None:
        raise Refused(f"there is no engine instance '{shortened(name)}'; 'gitopsctl engines list' shows them")
    return known


def require_not_retired(known: EngineInstanceRow) -> None:
    """Raises Refused if an instance is given up: no order changes it any more."""
    if known.is_retired:
        raise Refused(f"engine instance {known.id} is retired, for good: 'gitopsctl engines add' adds another")


def state_in_words(target: EngineInstanceRow) -> str:
    """Why no tenant is moved or pinned to an instance: its state, and the command that helps, for operators."""
    if target.is_leaving:
        advice = f"'gitopsctl engines undrain {target.id}' has it take tenants again"
    elif target.is_unready:
        advice = f"'gitopsctl engines show {target.id}' shows how far that is"
    else:
        advice = "'gitopsctl engines list' shows others"
    return f"engine instance {target.id} is {target.state}: {advice}"


def moving_in_words(tenant: str, move: Move) -> str:
    """Why a tenant that is on its way is not moved or pinned: its move, and what ends it, for operators."""
    can_go_back = move.is_cancellable and not move.is_cancelled
    cancel = ", or 'gitopsctl engines cancel-move' it first" if can_go_back else ""
    return f"tenant {tenant} is being moved to {move.target}: {move.step}; wait for its end{cancel}"

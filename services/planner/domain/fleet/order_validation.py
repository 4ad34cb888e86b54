"""What a name or a word in an operator's order has to be. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection

from services.kinds.shared.text import MAX_LABEL
from services.planner.domain.fleet.rows import Refused

LABEL = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")
WORKSPACE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,41}[A-Za-z0-9])?")
"""As workspaces may be called (``WORKSPACE_NAME`` of the topics)."""


def require_label(what: str, name: str) -> None:
    """Raises Refused if ``name`` is no DNS label."""
    if len(name) > MAX_LABEL or not LABEL.fullmatch(name):
        raise Refused(f"{what} is a DNS label: at most {MAX_LABEL} of a-z, 0-9 and '-', not '{name[:MAX_LABEL]}'")


def require_workspace(name: str) -> None:
    """Raises Refused if no workspace may be called so."""
    if not WORKSPACE.fullmatch(name):
        raise Refused(f"a workspace's name is at most 43 of A-Z, a-z, 0-9, '.', '_' and '-', not '{name[:MAX_LABEL]}'")


def require_one_of(what: str, value: str, known: Collection[str]) -> None:
    """Raises Refused if ``value`` is not ``known``."""
    if value not in known:
        others = f"but {', '.join(sorted(known))}" if known else "nor any other"
        raise Refused(f"there is no {what} '{value[:MAX_LABEL]}', {others}")

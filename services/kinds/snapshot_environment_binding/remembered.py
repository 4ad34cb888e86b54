"""What a binding's row stores in ``progress``: a JSON object, of which each rule owns one member."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import orjson

from services.common.json_values import canonical
from services.common.text_cache import TEXTS
from services.kinds.shared.resource import PlainResource


def remembered(row: PlainResource, member: str) -> Any:
    """The value of a member; None: the row has none."""
    return _members(row.progress).get(member) if row.progress else None


def with_remembered(row: PlainResource, member: str, value: Any) -> PlainResource:
    """The row with this value; None removes the member. Others stay."""
    others = {name: each for name, each in _members(row.progress or "{}").items() if name != member}
    members = others if value is None else others | {member: value}
    return replace(row, progress=canonical(members) if members else "")


@TEXTS.remember
def _members(progress: str) -> Mapping[str, Any]:
    members: dict[str, Any] = orjson.loads(progress)
    return members

"""What a part holds in memory: tests of years compare it early and late."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from functools import partial
from types import FunctionType, MethodType
from typing import Any

CONTAINERS = (list, tuple, deque, AbstractSet)


def held(root: Any) -> dict[str, int]:
    """How much each container that ``root`` reaches through our own objects holds, by where it is; empty ones too."""
    found: dict[str, int] = {}
    seen: set[int] = set()
    todo: list[tuple[str, Any]] = [(type(root).__name__, root)]
    while todo:
        path, each = todo.pop()
        if id(each) in seen or isinstance(each, str | bytes | int | float | type(None)):
            continue
        seen.add(id(each))
        if isinstance(each, (Mapping, *CONTAINERS)):
            found[path] = found.get(path, 0) + len(each)
        todo += _parts(path, each)
    return found


def _parts(path: str, each: Any) -> Iterable[tuple[str, Any]]:
    """What ``each`` refers to. All that is in a container has one path: generations differ in its keys."""
    match each:
        case Mapping():
            return [*((f"{path}[key]", key) for key in list(each)), *((f"{path}[]", each[key]) for key in list(each))]
        case list() | tuple() | deque() | AbstractSet():
            return [(f"{path}[]", item) for item in list(each)]
        case partial():
            return [(f"{path}()", part) for part in (each.func, each.args, each.keywords)]
        case MethodType():
            return [(f"{path}.self", each.__self__)]
        case FunctionType():
            return [(f"{path}()", cell.cell_contents) for cell in each.__closure__ or ()]
    return _members(path, each) if type(each).__module__.startswith("services.") else []


def _members(path: str, each: Any) -> Iterable[tuple[str, Any]]:
    slots = [name for kind in type(each).__mro__ for name in getattr(kind, "__slots__", ())]
    names = {*slots, *getattr(each, "__dict__", {})}
    return [(f"{path}.{name}", getattr(each, name)) for name in sorted(names) if hasattr(each, name)]


def grown(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, tuple[int, int]]:
    """Containers that hold more than they did."""
    return {path: (before.get(path, 0), size) for path, size in after.items() if size > before.get(path, 0)}

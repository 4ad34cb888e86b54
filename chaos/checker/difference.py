"""What is not as it must be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from services.common.kubernetes import Manifest

Sort = Literal["lost", "missing", "extra", "differs", "status", "sync"]
"""lost: what the API server has acknowledged is not there, or another. sync: a run took place twice, or not at all."""


@dataclass(frozen=True, slots=True, order=True)
class Difference:
    """One of them."""

    sort: Sort
    subject: str
    """Kind, namespace and name."""
    what: str
    namespace: str = ""
    """Of the tenant whom it concerns; empty: nobody can tell."""

    def __str__(self) -> str:
        return f"{self.sort}: {self.subject}: {self.what}"


def difference_of(sort: Sort, resource: Manifest, text: str) -> Difference:
    """What is wrong with a tenant's resource."""
    meta = resource["metadata"]
    return Difference(sort, f"{resource['kind']} {meta['namespace']}/{meta['name']}", text, meta["namespace"])


def differing_parts(expected: object, found: object, path: str = "") -> list[str]:
    """Where two values differ, as paths with both."""
    if isinstance(expected, dict) and isinstance(found, dict):
        names = sorted(expected.keys() | found.keys())
        return [
            text
            for name in names
            for text in differing_parts(expected.get(name), found.get(name), f"{path}.{name}" if path else name)
        ]
    return [] if expected == found else [f"{path} is {found!r}, not {expected!r}"]

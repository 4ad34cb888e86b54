"""One object of Argo CD's that a tenant's resources ask for."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from chaos.api import MANAGED_BY, MANAGER
from chaos.checker.difference import differing_parts
from services.common.kubernetes import Manifest

OURS = {MANAGED_BY: MANAGER}

Name = tuple[str, str]
"""Kind and name of an object, in whichever engine namespace it is."""


@dataclass(frozen=True, slots=True)
class Expected:
    """See the module."""

    name: Name
    tenant: str
    """The namespace."""
    problems: Callable[[Manifest], list[str]]
    """What is wrong with an object of that name."""
    is_certain: bool
    """It must be there; if not, it may be."""


def one_of(allowed: Iterable[Manifest], look: Callable[[Manifest], Manifest]) -> Callable[[Manifest], list[str]]:
    """An object has to look like one of these; told is where it differs from the most similar."""
    every = list(allowed)

    def problems(item: Manifest) -> list[str]:
        found = look(item)
        texts = [differing_parts(each, found) for each in every]
        return [] if [] in texts else min(texts, key=len, default=["nothing like it may be there"])

    return problems

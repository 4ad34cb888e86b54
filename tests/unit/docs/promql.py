"""Of PromQL what rules about readiness, complete lists, backups, moves and rollouts use: of which series they alert.

``a or b``, ``a unless on (l) b``, ``max by (l) (m)``, ``count by (l) (m)``, ``absent(m)``, ``time() - a``, a
comparison with a product of numbers, and selectors with ``=``, ``!=`` and ``=~``. ``or`` binds weakest, as in
Prometheus.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

Series = tuple[dict[str, str], float]
"""Labels, with the metric's name as ``__name__``, and the newest value."""

NOW = 1_700_000_000.0
"""What ``time()`` is, in seconds since 1970."""
COMPARISONS: dict[str, Callable[[float, float], bool]] = {"<": operator.lt, ">": operator.gt}


def firing(expression: str, series: Sequence[Series]) -> list[dict[str, str]]:
    """Labels of the alerts that ``expression`` raises of ``series``, without their names."""
    text = " ".join(line.partition("#")[0] for line in expression.splitlines())
    found: list[dict[str, str]] = []
    for part in re.split(r"\bor\b", text):
        found += [labels for labels, _ in _unless(part.strip(), series) if labels not in found]
    return found


def _unless(text: str, series: Sequence[Series]) -> list[Series]:
    left, _, right = text.partition(" unless on ")
    if not right:
        return _compared(text, series)
    match = re.fullmatch(r"\((\w+)\)\s*(.+)", right)
    assert match, text
    known = {labels.get(match[1], "") for labels, _ in _vector(match[2], series)}
    return [each for each in _compared(left, series) if each[0].get(match[1], "") not in known]


def _compared(text: str, series: Sequence[Series]) -> list[Series]:
    match = re.fullmatch(r"(.+?)\s*([<>])\s*([\d* ]+)", text)
    if match is None:
        return _vector(text, series)
    limit = math.prod(int(number) for number in match[3].split("*"))
    return [each for each in _vector(match[1], series) if COMPARISONS[match[2]](each[1], limit)]


def _vector(text: str, series: Sequence[Series]) -> list[Series]:
    text = text.strip()
    if text.startswith(since := "time() - "):
        return [(labels, NOW - value) for labels, value in _vector(text.removeprefix(since), series)]
    if match := re.fullmatch(r"absent\((.+)\)", text):
        return [] if _selected(match[1], series) else [(_matchers(match[1]), 1.0)]
    if match := re.fullmatch(r"(max|count) by \(([\w, ]+)\) \((.+)\)", text):
        combine: Callable[[Iterable[Any]], float] = max if match[1] == "max" else lambda values: float(len([*values]))
        return _aggregated(combine, match[2].split(", "), _selected(match[3], series))
    if match := re.fullmatch(r"max\((.+)\)", text):
        return _aggregated(max, [], _selected(match[1], series))
    return _selected(text, series)


def _aggregated(combine: Callable[[Iterable[Any]], float], names: Sequence[str], series: list[Series]) -> list[Series]:
    groups: dict[tuple[str, ...], list[float]] = {}
    for labels, value in series:
        groups.setdefault(tuple(labels.get(name, "") for name in names), []).append(value)
    return [(_without_empty(zip(names, key, strict=True)), combine(values)) for key, values in groups.items()]


def _selected(text: str, series: Sequence[Series]) -> list[Series]:
    match = re.fullmatch(r"(\w+)(?:\{.*\})?", text)
    assert match, f"not understood: {text}"
    wanted = {"__name__": match[1], **_matchers(text)}.items()
    unwanted = re.findall(r'(\w+)!="([\w-]+)"', text)
    patterns = re.findall(r'(\w+)=~"([^"]+)"', text)
    return [
        (labels, value)
        for labels, value in series
        if wanted <= labels.items()
        and not any(labels.get(name) == other for name, other in unwanted)
        and all(re.fullmatch(pattern, labels.get(name, "")) for name, pattern in patterns)
    ]


def _matchers(text: str) -> dict[str, str]:
    return dict(re.findall(r'(\w+)="([\w-]+)"', text))


def _without_empty(labels: Iterable[tuple[str, str]]) -> dict[str, str]:
    return {name: value for name, value in labels if value}

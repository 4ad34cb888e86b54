"""The interval in which an Argo CD compares each Application anew, by its argocd-cm. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta

INTERVAL, JITTER = "timeout.reconciliation", "timeout.reconciliation.jitter"
DEFAULTS = {INTERVAL: "120s", JITTER: "60s"}
"""Argo CD's own defaults."""
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def compares_within(config: Mapping[str, str] | None) -> timedelta | None:
    """The interval by the data of argocd-cm; None if it never compares by itself, or if that is unknown."""
    if config is None:
        return None
    interval, jitter = (_duration(config.get(name) or DEFAULTS[name]) for name in (INTERVAL, JITTER))
    return interval + (jitter or timedelta()) if interval else None


def _duration(text: str) -> timedelta | None:
    """A duration as Go writes it, such as 2m30s; None if ``text`` is none."""
    parts = _PART.findall(text)
    if "".join(number + unit for number, unit in parts) != text:
        return None
    return timedelta(seconds=sum(float(number) * _SECONDS[unit] for number, unit in parts))

"""How a child that refuses to run as root can be started on this machine."""

from __future__ import annotations

import functools
import os
import subprocess
import sys

from devstack.supervisor import trampoline
from services.common.errors import NoPermission

WAYS = ("namespace", "setuid")
"""In order of preference: the first leaves all files root's, so that a later run as root can read and delete them."""


@functools.cache
def way_to_drop_root() -> str:
    """One of ``trampoline.DROPS``: ``keep`` for an ordinary user. Raises NoPermission if nothing works."""
    if os.geteuid() != 0:
        return "keep"
    reasons = {way: _problem_of(way) for way in WAYS}
    for way, reason in reasons.items():
        if not reason:
            return way
    tried = "; ".join(f"{way}: {reason}" for way, reason in reasons.items())
    raise NoPermission(f"PostgreSQL does not run as root, and this machine lets nothing else be done ({tried})")


def _problem_of(way: str) -> str:
    """Why ``way`` does not work here; empty if it does."""
    trial = subprocess.run(
        [sys.executable, "-I", "-S", trampoline.__file__, str(os.getpid()), "9", way, "true"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return trial.stderr.strip()

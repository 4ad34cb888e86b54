"""Which versions of Argo CD an agent works with. Pure; the only place that says so.

What was tested ran in this project's own tests; what was only read was compared in Argo CD's source and advisories.
"""

from __future__ import annotations

import re
from typing import NamedTuple

TESTED = ("3.1.16", "3.2.11")
"""Built from its modules; the Go proxy does not hand out those of 3.3 and later."""
READ = ("3.3.19", "3.4.13", "3.5.7", "3.6.0", "3.6.1")

PATCHED = {(3, 4): 13, (3, 5): 7, (3, 6): 1}
"""By minor version the first patch with what the advisories ask for, GHSA-fmxq-cgp8-87wp among them.

A minor version that is newer has them all; one that is older gets none any more.
"""
_VERSION = re.compile(r"v?(\d{1,4})\.(\d{1,4})\.(\d{1,4})(?![\d.])", re.ASCII)


class Version(NamedTuple):
    """A release; what comes after its patch, such as rc1, does not count for it."""

    major: int
    minor: int
    patch: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"


def parsed_version(text: str) -> Version | None:
    """The version that ``text`` begins with, such as an image's tag; None if it begins with none."""
    found = _VERSION.match(text)
    return Version(*map(int, found.groups())) if found else None


def is_patched(version: Version) -> bool:
    """Whether it needs no compensation."""
    minor = version[:2]
    return minor > max(PATCHED) or version.patch >= PATCHED.get(minor, version.patch + 1)

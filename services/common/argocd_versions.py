"""Which versions of Argo CD an agent works with. Pure; the only place that says so, and ``k8s/README.md`` repeats it.

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
_VERSION = re.compile(r"v?(\d{1,4})\.(\d{1,4})\.(\d{1,4})(?![\d.])(-(?:alpha|beta|rc))?", re.ASCII | re.IGNORECASE)


class Version(NamedTuple):
    """A release, or a candidate for one, which comes before it."""

    major: int
    minor: int
    patch: int
    is_release: bool = True

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}{'' if self.is_release else '-rc'}"


def parsed_version(text: str) -> Version | None:
    """The version that ``text`` begins with, such as an image's tag; None if it begins with none."""
    found = _VERSION.match(text)
    if found is None:
        return None
    major, minor, patch, candidate = found.groups()
    return Version(int(major), int(minor), int(patch), is_release=candidate is None)


def _first_known() -> dict[tuple[int, int], Version]:
    """By minor version the oldest that was tested or read."""
    first: dict[tuple[int, int], Version] = {}
    for version in sorted(filter(None, map(parsed_version, (*TESTED, *READ)))):
        first.setdefault(version[:2], version)
    return first


FIRST_KNOWN = _first_known()


def is_known(version: Version) -> bool:
    """Whether it is not older than what was tested or read of its minor version; those to come are."""
    minor = version[:2]
    return minor > max(FIRST_KNOWN) or (minor in FIRST_KNOWN and version >= FIRST_KNOWN[minor])


def is_patched(version: Version) -> bool:
    """Whether it has the fixes, so that nothing has to make up for their absence."""
    minor = version[:2]
    first = PATCHED.get(minor, 0 if minor > max(PATCHED) else None)
    return first is not None and version >= Version(*minor, first)

"""Which versions of Argo CD an agent works with. Pure; the only place that says so, and ``k8s/README.md`` repeats it.

What was tested ran in this project's own tests; what was only read was compared in Argo CD's source and advisories.
"""

from __future__ import annotations

import re
from typing import NamedTuple

TESTED = ("3.1.16", "3.2.11")
"""Built from Argo CD's modules. The Go proxy has none of 3.3 and later."""
READ = ("3.3.19", "3.4.13", "3.5.7", "3.6.0", "3.6.1")

PATCHED = {(3, 4): 13, (3, 5): 7, (3, 6): 1}
"""For each minor version, the first patch that fixes the known advisories, GHSA-fmxq-cgp8-87wp among them. Newer minor
versions have all fixes; older ones get none any more."""
_VERSION = re.compile(r"v?(\d{1,4})\.(\d{1,4})\.(\d{1,4})(?![\d.])(-(?:alpha|beta|rc))?", re.ASCII | re.IGNORECASE)


class Version(NamedTuple):
    """A release, or a release candidate, which is less than its release."""

    major: int
    minor: int
    patch: int
    is_release: bool = True

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}{'' if self.is_release else '-rc'}"


def parsed_version(text: str) -> Version | None:
    """The version at the beginning of ``text``, such as an image's tag; None if there is none."""
    found = _VERSION.match(text)
    if found is None:
        return None
    major, minor, patch, candidate = found.groups()
    return Version(int(major), int(minor), int(patch), is_release=candidate is None)


def _first_known() -> dict[tuple[int, int], Version]:
    """For each minor version, the oldest one that was tested or read."""
    first: dict[tuple[int, int], Version] = {}
    for version in sorted(filter(None, map(parsed_version, (*TESTED, *READ)))):
        first.setdefault(version[:2], version)
    return first


FIRST_KNOWN = _first_known()


def is_known(version: Version) -> bool:
    """Whether it is at least as new as the oldest one tested or read of its minor version.

    Future versions are known.
    """
    minor = version[:2]
    return minor > max(FIRST_KNOWN) or (minor in FIRST_KNOWN and version >= FIRST_KNOWN[minor])


def is_patched(version: Version) -> bool:
    """Whether it has the fixes, so that no setting has to make up for them."""
    minor = version[:2]
    first = PATCHED.get(minor, 0 if minor > max(PATCHED) else None)
    return first is not None and version >= Version(*minor, first)

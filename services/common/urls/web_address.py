"""URLs taken apart by one strict expression: what a lenient parser would repair, a strict one refuses."""

from __future__ import annotations

import re
from dataclasses import dataclass

BAD_PORT = "has a port that is no number from 1 to 65535; correct it or leave it out"

_URL = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://"
    r"((?P<user>[^@:/?#\\]*)(:(?P<password>[^@/?#\\]*))?@)?"
    r"(?P<host>\[[^\]@/?#\\]*\]|[^\[\]@:/?#\\]*)"
    r"(:(?P<port>[^@:/?#\\]*))?"
    r"(?P<rest>([/?#].*)?)"
)
_PORT = re.compile(r"[1-9][0-9]{0,4}")
_MAX_PORT = 65535
_MAX_SHOWN = 80


@dataclass(frozen=True, slots=True)
class Parts:
    """A URL's parts as written, but for the scheme, which is in lower case; None for those that are not there."""

    scheme: str
    user: str | None
    password: str | None
    host: str
    port: str | None
    rest: str
    """Path, query and fragment; empty, or begins with one of ``/ ? #``."""


def split_url(url: str) -> Parts | None:
    """The parts of ``url``; None if it is no absolute URL with an authority."""
    match = _URL.fullmatch(url)
    if match is None:
        return None
    return Parts(match["scheme"].lower(), match["user"], match["password"], match["host"], match["port"], match["rest"])


def port_problem(port: str | None) -> str:
    """What is wrong with a port; empty if nothing is or there is none."""
    if port is None or (_PORT.fullmatch(port) and int(port) <= _MAX_PORT):
        return ""
    return BAD_PORT


def quoted(text: str) -> str:
    """A user's text in a message: quoted, short, printable."""
    return "'" + text[:_MAX_SHOWN].encode("ascii", "backslashreplace").decode() + "'"

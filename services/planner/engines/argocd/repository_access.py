"""Which of Argo CD's words mean that it cannot read a repository without a login that the tenant would have to bring.

It lists what a branch is with go-git, and fetches a commit with git itself; either says no in words of its own. A
server that hides what is private says that there is no such repository. Without a key git is not told either which keys
ssh servers have.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from services.common.json_values import text_of

_GO_GIT = r"failed to list refs: (?:authentication required|authorization failed|repository not found)"
_GO_GIT_SSH = r"failed to list refs: .*(?:error creating SSH agent|unable to authenticate)"
_GIT = (
    r"git fetch .*(?:could not read (?:Username|Password) for|Authentication failed for|repository '[^']*' not found"
    r"|Repository not found|Host key verification failed|The requested URL returned error: 403|Permission denied \()"
)
_CLOSED = re.compile(f"{_GO_GIT}|{_GO_GIT_SSH}|{_GIT}", re.DOTALL | re.IGNORECASE)
_NOT_PERMITTED = re.compile(r"application repo \S+ is not permitted in project")
"""Agents take out of a project what its tenant has no login for, and nothing else that an Application of it names."""


def needs_login(message: str) -> bool:
    """Whether a failure says so."""
    return _CLOSED.search(message) is not None


def is_closed(condition: Mapping[str, Any]) -> bool:
    """Whether a condition of an Application says so, or that its project does not list the repository."""
    type_, message = condition.get("type"), text_of(condition.get("message"))
    if type_ == "InvalidSpecError":
        return _NOT_PERMITTED.search(message) is not None
    return type_ == "ComparisonError" and needs_login(message)

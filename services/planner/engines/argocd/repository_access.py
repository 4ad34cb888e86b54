"""Which of Argo CD's words mean that it cannot read a repository without a login that the tenant would have to bring.

It lists what a branch is with go-git, and fetches a commit with git itself; either says no in words of its own. A
server that hides what is private says that there is no such repository. Without a key git does not get the keys of ssh
servers, either.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from services.common.json_values import text_of

_SAYS_NO = (
    (
        "failed to list refs: ",
        re.compile(
            r"authentication required|authorization failed|repository not found|error creating SSH agent"
            r"|unable to authenticate",
            re.IGNORECASE,
        ),
    ),
    (
        "git fetch ",
        re.compile(
            r"could not read (?:Username|Password) for|Authentication failed for|repository '[^']{0,2048}' not found"
            r"|Repository not found|Host key verification failed|The requested URL returned error: 403"
            r"|Permission denied \(",
            re.IGNORECASE,
        ),
    ),
)
"""What was tried, and the words after it that say so."""
MAX_READ = 16_384
"""Characters of a message that are looked at: a tenant's repository can have a say in how long it is."""
_NOT_PERMITTED = re.compile(r"application repo \S{1,4096} is not permitted in project")
"""Agents take out of a project what its tenant has no login for, and nothing else that an Application of it names."""


def needs_login(message: str) -> bool:
    """Whether a failure says so. Takes time in proportion to the message, whatever is in it."""
    read = message[:MAX_READ]
    return any((at := read.find(tried)) >= 0 and says_no.search(read, at) for tried, says_no in _SAYS_NO)


def is_closed(condition: Mapping[str, Any]) -> bool:
    """Whether a condition of an Application says so, or that its project does not list the repository."""
    type_, message = condition.get("type"), text_of(condition.get("message"))
    if type_ == "InvalidSpecError":
        return _NOT_PERMITTED.search(message[:MAX_READ]) is not None
    return type_ == "ComparisonError" and needs_login(message)

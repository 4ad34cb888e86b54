"""Tries credentials on an https git server: the discovery request that every clone begins with."""

from __future__ import annotations

import asyncio
import base64
import ssl
from dataclasses import dataclass, replace
from pathlib import Path

from services.agent.credentials.endpoint import Endpoint
from services.agent.credentials.login import Login
from services.agent.credentials.names import Trouble, Unreached
from services.agent.credentials.outbound import Answer, Outbound, trust
from services.agent.credentials.repository_url import HttpsUrl
from services.agent.credentials.target import SERVER_ERRORS, TOO_MANY
from services.agent.credentials.verdict import (
    INVALID_CREDENTIALS,
    INVALID_URL,
    CheckFailed,
    Unanswered,
    repository_unreached,
)
from services.common.errors import Retry

ADVERTISEMENT = "application/x-git-upload-pack-advertisement"
FIRST_LINE = b"001e# service=git-upload-pack\n"
SUFFIX = ".git"

OK, UNAUTHORIZED, FORBIDDEN, NOT_FOUND = 200, 401, 403, 404
REDIRECTS = range(300, 400)


@dataclass(frozen=True, slots=True)
class HttpsRepositories:
    """Checks by https."""

    outbound: Outbound
    authorities: Path | None

    async def check(self, url: HttpsUrl, login: Login | None) -> None:
        """Raises CheckFailed if the repository does not open to ``login``, Retry for trouble of our own.

        None: whether it opens to anybody.
        """
        try:
            answer = await self._answer(url.endpoint, login)
        except Unreached as error:
            trouble = error.trouble
        else:
            return _judge(answer)
        if trouble is Trouble.AUTHORITY:
            raise Unanswered(INVALID_URL, _UNKNOWN_AUTHORITY)
        raise repository_unreached(trouble)

    async def _answer(self, endpoint: Endpoint, login: Login | None) -> Answer:
        """Of the spelling that there is."""
        path = endpoint.path.removesuffix(SUFFIX)
        asked, other = (path + SUFFIX, path) if endpoint.path.endswith(SUFFIX) else (path, path + SUFFIX)
        answer = await self._discover(replace(endpoint, path=asked), login)
        if answer.status == NOT_FOUND or answer.status in REDIRECTS:
            second = await self._discover(replace(endpoint, path=other), login)
            answer = second if second.status in {OK, UNAUTHORIZED, FORBIDDEN} else answer
        return answer

    async def _discover(self, endpoint: Endpoint, login: Login | None) -> Answer:
        headers = {"Accept": "*/*"}
        if login is not None:
            pair = f"{login.username}:{login.password}".encode()
            headers["Authorization"] = f"Basic {base64.b64encode(pair).decode()}"
        tls = await asyncio.to_thread(_tls, self.authorities)
        async with self.outbound.open(endpoint, tls) as connection:
            return await connection.beginning("/info/refs?service=git-upload-pack", headers, len(FIRST_LINE))


_UNKNOWN_AUTHORITY = "its server's certificate is signed by an authority that the operator has not added"


def _judge(answer: Answer) -> None:
    """Raises CheckFailed unless ``answer`` is a git server's advertisement."""
    status = f"HTTP status {answer.status}"
    if answer.status in {UNAUTHORIZED, FORBIDDEN}:
        raise CheckFailed(INVALID_CREDENTIALS, f"the server does not accept the credentials ({status})")
    if answer.status in REDIRECTS:
        raise CheckFailed(INVALID_URL, f"it has moved ({status}): redirects are not followed, write where it is now")
    if answer.status >= SERVER_ERRORS or answer.status == TOO_MANY:
        raise Unanswered(INVALID_CREDENTIALS, f"the server cannot tell now ({status})")
    if answer.status != OK:
        raise CheckFailed(INVALID_URL, f"the server does not show it ({status})")
    if answer.content_type != ADVERTISEMENT or answer.body != FIRST_LINE:
        raise CheckFailed(INVALID_URL, "what is at its URL is not a git repository")


def _tls(authorities: Path | None) -> ssl.SSLContext:
    try:
        return trust(None, extra=authorities)
    except (ValueError, OSError) as error:
        raise Retry(f"GIT_AUTHORITIES: {authorities}: {error}") from error

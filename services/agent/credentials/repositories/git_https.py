"""Checks a login on an https git server, by the discovery request that begins every clone."""

from __future__ import annotations

import asyncio
import base64
import ssl
from dataclasses import dataclass, replace
from http import HTTPStatus
from pathlib import Path

from services.agent.credentials.check_result import (
    INVALID_CREDENTIALS,
    INVALID_URL,
    CheckFailed,
    CheckInconclusive,
    repository_unreached,
)
from services.agent.credentials.network.endpoint import Endpoint
from services.agent.credentials.network.https import HttpResponse, HttpsConnector, trust
from services.agent.credentials.network.resolver import ConnectionProblem, Unreachable
from services.agent.credentials.repositories.git_url import HttpsUrl
from services.agent.credentials.repositories.login import Login
from services.common.errors import Retry

ADVERTISEMENT = "application/x-git-upload-pack-advertisement"
FIRST_LINE = b"001e# service=git-upload-pack\n"
SUFFIX = ".git"

REDIRECTS = range(300, 400)


@dataclass(frozen=True, slots=True)
class HttpsRepositories:
    """Checks repositories over https."""

    https: HttpsConnector
    authorities: Path | None

    async def check_login(self, url: HttpsUrl, login: Login | None) -> None:
        """Raises CheckFailed if the repository does not open with ``login``, Retry for trouble of our own.

        Without a login the repository is requested anonymously.
        """
        try:
            answer = await self._answer(url.endpoint, login)
        except Unreachable as error:
            problem = error.problem
        else:
            return _judge(answer)
        if problem is ConnectionProblem.AUTHORITY:
            raise CheckInconclusive(INVALID_URL, _UNKNOWN_AUTHORITY)
        raise repository_unreached(problem)

    async def _answer(self, endpoint: Endpoint, login: Login | None) -> HttpResponse:
        """The answer for the URL, or for the URL with or without ``.git`` if only that exists."""
        path = endpoint.path.removesuffix(SUFFIX)
        asked, other = (path + SUFFIX, path) if endpoint.path.endswith(SUFFIX) else (path, path + SUFFIX)
        answer = await self._discover(replace(endpoint, path=asked), login)
        if answer.status == HTTPStatus.NOT_FOUND or answer.status in REDIRECTS:
            second = await self._discover(replace(endpoint, path=other), login)
            answer = (
                second if second.status in {HTTPStatus.OK, HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN} else answer
            )
        return answer

    async def _discover(self, endpoint: Endpoint, login: Login | None) -> HttpResponse:
        headers = {"Accept": "*/*"}
        if login is not None:
            pair = f"{login.username}:{login.password}".encode()
            headers["Authorization"] = f"Basic {base64.b64encode(pair).decode()}"
        tls = await asyncio.to_thread(_tls, self.authorities)
        async with self.https.open_connection(endpoint, tls) as connection:
            return await connection.read_beginning("/info/refs?service=git-upload-pack", headers, len(FIRST_LINE))


_UNKNOWN_AUTHORITY = "its server's certificate is signed by an authority that the operator has not added"


def _judge(answer: HttpResponse) -> None:
    """Raises CheckFailed unless ``answer`` is a git server's advertisement."""
    status = f"HTTP status {answer.status}"
    if answer.status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
        raise CheckFailed(INVALID_CREDENTIALS, f"the server does not accept the credentials ({status})")
    if answer.status in REDIRECTS:
        raise CheckFailed(INVALID_URL, f"it has moved ({status}): redirects are not followed, write where it is now")
    if answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR or answer.status == HTTPStatus.TOO_MANY_REQUESTS:
        raise CheckInconclusive(INVALID_CREDENTIALS, f"the server cannot tell now ({status})")
    if answer.status != HTTPStatus.OK:
        raise CheckFailed(INVALID_URL, f"the server does not show it ({status})")
    if answer.content_type != ADVERTISEMENT or answer.body != FIRST_LINE:
        raise CheckFailed(INVALID_URL, "what is at its URL is not a git repository")


def _tls(authorities: Path | None) -> ssl.SSLContext:
    try:
        return trust(None, extra=authorities)
    except (ValueError, OSError) as error:
        raise Retry(f"GIT_AUTHORITIES: {authorities}: {error}") from error

"""Tries credentials on an https git server: the discovery request that every clone begins with."""

from __future__ import annotations

import base64
import ssl
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from services.agent.credentials.endpoint import Endpoint
from services.agent.credentials.login import Login
from services.agent.credentials.names import Trouble, Unreached
from services.agent.credentials.outbound import Answer, Outbound, trust
from services.agent.credentials.repository_url import HttpsUrl
from services.agent.credentials.verdict import INVALID_CREDENTIALS, INVALID_URL, CheckFailed
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

    async def check(self, url: HttpsUrl, login: Login) -> None:
        """Raises CheckFailed if the repository does not open to ``login``, Retry for trouble of our own."""
        endpoint = url.endpoint
        path = endpoint.path.removesuffix(SUFFIX)
        asked, other = (path + SUFFIX, path) if endpoint.path.endswith(SUFFIX) else (path, path + SUFFIX)
        try:
            answer = await self._discover(replace(endpoint, path=asked), login)
            if answer.status == NOT_FOUND or answer.status in REDIRECTS:
                second = await self._discover(replace(endpoint, path=other), login)
                answer = second if second.status in {OK, UNAUTHORIZED, FORBIDDEN} else answer
        except Unreached as error:
            trouble = error.trouble
        else:
            return _judge(answer)
        raise CheckFailed(INVALID_URL, _TEXTS.get(trouble, trouble.value))

    async def _discover(self, endpoint: Endpoint, login: Login) -> Answer:
        pair = f"{login.username}:{login.password}".encode()
        headers = {"Authorization": f"Basic {base64.b64encode(pair).decode()}", "Accept": "*/*"}
        async with self.outbound.open(endpoint, _tls(self.authorities)) as connection:
            return await connection.beginning("/info/refs?service=git-upload-pack", headers, len(FIRST_LINE))


_TEXTS = {
    Trouble.AUTHORITY: "its server's certificate is signed by an authority that the operator has not added",
}


def _judge(answer: Answer) -> None:
    """Raises CheckFailed unless ``answer`` is a git server's advertisement."""
    status = f"HTTP status {answer.status}"
    if answer.status in {UNAUTHORIZED, FORBIDDEN}:
        raise CheckFailed(INVALID_CREDENTIALS, f"the server does not accept the credentials ({status})")
    if answer.status in REDIRECTS:
        raise CheckFailed(INVALID_URL, f"it has moved ({status}): redirects are not followed, write where it is now")
    if answer.status != OK:
        raise CheckFailed(INVALID_URL, f"the server does not show it ({status})")
    if answer.content_type != ADVERTISEMENT or answer.body != FIRST_LINE:
        raise CheckFailed(INVALID_URL, "what is at its URL is not a git repository")


@lru_cache(maxsize=1)
def _tls(authorities: Path | None) -> ssl.SSLContext:
    """Made once: reading the system's authorities takes longer than a request."""
    try:
        return trust(None, extra=authorities)
    except (ValueError, OSError) as error:
        raise Retry(f"GIT_AUTHORITIES: {authorities}: {error}") from error

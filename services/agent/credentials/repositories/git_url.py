"""Repository URLs as git and Argo CD read them: https, ssh:// and user@host:path. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from services.agent.credentials.network.endpoint import HTTPS_PORT, Endpoint, endpoint_of
from services.common.addresses import AddressPolicy
from services.common.urls.repository_url import NO_URL, parts_of, refusal

SSH_PORT = 22
DEFAULT_USER = "git"


@dataclass(frozen=True, slots=True)
class HttpsUrl:
    """A repository on an https server."""

    endpoint: Endpoint


@dataclass(frozen=True, slots=True)
class SshUrl:
    """A repository on an ssh server."""

    user: str
    host: str
    port: int
    path: str
    """The path for git-upload-pack. It contains no quotes."""


def parse_repository(url: str, addresses: AddressPolicy) -> HttpsUrl | SshUrl:
    """Parse ``url``. Raises ValueError with the reason, as a text to follow the field's name."""
    why, parts = refusal(url, addresses, with_credentials=True), parts_of(url)
    if why or parts is None:
        raise ValueError(why or NO_URL)
    if parts.scheme == "https":
        return HttpsUrl(endpoint_of(parts, HTTPS_PORT))
    endpoint = endpoint_of(parts, SSH_PORT)
    # As git does: the path of the scp form is relative, and /~user/repository is below the user's home.
    path = parts.rest if "://" in url else parts.rest.removeprefix("/")
    if path.startswith("/~"):
        path = path.removeprefix("/")
    return SshUrl(parts.user or DEFAULT_USER, endpoint.host, endpoint.port, path)

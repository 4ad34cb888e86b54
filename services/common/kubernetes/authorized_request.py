"""A request with our credentials. Made by :mod:`client`."""

from __future__ import annotations

from dataclasses import dataclass
from types import TracebackType
from typing import Any

import aiohttp
import orjson
from kubernetes.aio.client import Configuration


@dataclass(slots=True)
class AuthorizedRequest:
    """An aiohttp request whose credentials are asked for when it is entered: tokens are renewed under us."""

    configuration: Configuration
    session: aiohttp.ClientSession
    method: str
    path: str
    query: dict[str, str]
    body: object
    content_type: str
    timeout: aiohttp.ClientTimeout
    accept: str
    _response: aiohttp.ClientResponse | None = None

    async def __aenter__(self) -> aiohttp.ClientResponse:
        headers = {"Accept": self.accept}
        if credentials := (await self.configuration.auth_settings()).get("BearerToken"):
            headers["Authorization"] = credentials["value"] or ""
        extra: dict[str, Any] = {}
        if self.body is not None:
            headers["Content-Type"] = self.content_type
            extra["data"] = orjson.dumps(self.body)
        url = f"{self.configuration.host}{self.path}"
        self._response = await self.session.request(
            self.method,
            url,
            params=self.query,
            headers=headers,
            timeout=self.timeout,
            server_hostname=self.configuration.tls_server_name,
            **extra,
        )
        return self._response

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._response is not None:
            self._response.release() if kind is None else self._response.close()

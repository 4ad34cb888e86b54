"""When the certificates expire on which an engine instance depends.

- That of its API server, as the server presents it.
- That of its repo server, if operators have provided one: Secret :data:`REPO_SERVER_SECRET`. Without that Secret Argo
  CD makes a certificate at each start, which nobody verifies.

A certificate that cannot be read gives no signal. An API server that does not answer is a signal of its own.
"""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from datetime import datetime

import structlog
from cryptography import x509

from services.agent.health.signals import CertificateSignal
from services.common.clock import Clock
from services.common.errors import Permanent, Retry, Wait
from services.common.json_values import dict_of, text_of
from services.common.kubernetes import SECRET, KubeClient

log = structlog.get_logger(__name__)

OF_API_SERVER, OF_REPO_SERVER = "API server", "repo server"
REPO_SERVER_SECRET = "argocd-repo-server-tls"  # noqa: S105 - a name
LOOK_SECONDS = 600.0
"""Seconds between two reads: nobody renews a certificate more often."""
Validity = tuple[datetime, datetime]
"""The times between which a certificate is valid."""


class Certificates:
    """The certificates of one instance."""

    def __init__(self, cluster: KubeClient, namespace: str, clock: Clock) -> None:
        """Nothing is read before :meth:`look`."""
        self._cluster, self._namespace, self._clock = cluster, namespace, clock
        self._known: dict[str, Validity] = {}
        self._look_at = 0.0

    async def look(self) -> tuple[CertificateSignal, ...]:
        """The certificates that can be read. They are read anew every ten minutes."""
        if self._clock.time() >= self._look_at:
            self._known = {name: validity async for name, validity in self._read()}
            self._look_at = self._clock.time() + LOOK_SECONDS
        now = self._clock.now()
        return tuple(CertificateSignal(name, end, end - now, end - begin) for name, (begin, end) in self._known.items())

    async def _read(self) -> AsyncIterator[tuple[str, Validity]]:
        for name, read in ((OF_API_SERVER, self._of_api_server), (OF_REPO_SERVER, self._of_repo_server)):
            try:
                yield name, validity_of(await read())
            except (Retry, Wait, Permanent, ValueError) as error:
                log.debug("certificate not looked at", namespace=self._namespace, certificate=name, error=str(error))

    async def _of_api_server(self) -> bytes:
        return await self._cluster.read_certificate()

    async def _of_repo_server(self) -> bytes:
        secret = await self._cluster.get_object(SECRET, self._namespace, REPO_SERVER_SECRET)
        return base64.b64decode(text_of(dict_of(secret.get("data")).get("tls.crt")), validate=True)


def validity_of(certificate: bytes) -> Validity:
    """The validity of a certificate in DER, or of the first one in PEM. Raises ValueError."""
    if b"-----BEGIN" in certificate:
        found = x509.load_pem_x509_certificate(certificate)
    else:
        found = x509.load_der_x509_certificate(certificate)
    return found.not_valid_before_utc, found.not_valid_after_utc

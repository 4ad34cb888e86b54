"""A tenant's client certificate, which identifies TLS connections to the tenant's own API server.

The agent uses the kubeconfig's certificate only to create an account. Argo CD gets only that account's token. The key
stays in memory.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
import ssl
from dataclasses import dataclass, field

from cryptography.hazmat.primitives import serialization

from services.agent.credentials.check_result import CheckFailed
from services.agent.credentials.repositories.private_key import private_key

MAX_CERTIFICATE_BYTES, MAX_KEY_BYTES = 64 * 1024, 16 * 1024
_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----")


@dataclass(frozen=True, slots=True)
class ClientCertificate:
    """Certificate and key as a kubeconfig has them: base64 of PEM."""

    chain: str = field(repr=False)
    key: str = field(repr=False)

    def load_into(self, context: ssl.SSLContext) -> None:
        """Use the certificate for all connections of ``context``, which must not be shared.

        Runs in a thread. Raises ValueError with the reason if the certificate is unusable.
        """
        content, problem = "", ""
        try:
            content = "\n".join([_chain(self.chain), _key(self.key)])
            _load(context, content)
        except ssl.SSLError:
            problem = "client-certificate-data and client-key-data do not belong together"
        except ValueError as error:
            problem = str(error)
        # Outside of the handler: what is raised there would hold the key.
        if problem:
            raise ValueError(problem)


def _chain(encoded: str) -> str:
    found = _CERTIFICATE.findall(_decoded(encoded, "client-certificate-data", MAX_CERTIFICATE_BYTES))
    if not found:
        raise ValueError("client-certificate-data is not base64 of PEM certificates")
    return "\n".join(found)


def _key(encoded: str) -> str:
    """The key, parsed as logins to git servers are, and written anew: OpenSSL gets no other text."""
    text = _decoded(encoded, "client-key-data", MAX_KEY_BYTES)
    try:
        numbers = private_key(text).pyca_key
    except CheckFailed:
        numbers = None
    if numbers is None:
        raise ValueError(
            "client-key-data is not base64 of a PEM key that is accepted: ECDSA, Ed25519, or RSA of at most 4096 bits, "
            "without a passphrase"
        )
    return numbers.private_bytes(  # type: ignore[union-attr]
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()


def _decoded(encoded: str, name: str, limit: int) -> str:
    text = ""
    if len(encoded) <= 2 * limit:
        try:
            text = base64.b64decode("".join(encoded.split()), validate=True).decode("ascii")
        except (binascii.Error, ValueError):
            text = ""
    if not 0 < len(text) <= limit:
        raise ValueError(f"{name} is not base64 of PEM, or too long")
    return text


def _load(context: ssl.SSLContext, content: str) -> None:
    """Give OpenSSL a file by name whose content exists only in memory."""
    descriptor = os.memfd_create("client-certificate")
    try:
        os.write(descriptor, content.encode())
        context.load_cert_chain(f"/proc/self/fd/{descriptor}", password=lambda: "")
    finally:
        os.close(descriptor)

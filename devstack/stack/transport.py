"""Certificates, keys and tokens of a stack in which nothing travels in clear (``dev up --tls``).

Made anew at every start. Two authorities, neither of whose keys is kept: one signs what the servers show; the other
signs for Connect's REST API alone, both the worker and who may command it.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    pkcs12,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, ObjectIdentifier

from devstack.stack.node_addresses import name_in_cluster
from devstack.stack.pki import Issuer
from devstack.stack.state_folder import write_private
from services.cli.kafka.registry_tokens import RegistryRole, issue_token
from services.common.errors import InvalidConfiguration

LIFETIME = timedelta(days=30)
"""Longer than a stack runs."""

NAMES = ("127.0.0.1", "localhost")
SERVER, CLIENT = ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH
OPERATOR = "operator"


@dataclass(frozen=True)
class Transport:
    """Paths of the files, and the registry's keys."""

    folder: Path
    registry_public_key: str
    """As Quarkus reads it."""
    registry_tokens: Mapping[str, str]
    """By holder."""

    @property
    def authority(self) -> Path:
        """Signed what brokers, registry and PostgreSQL show."""
        return self.folder / "ca.crt"

    @property
    def broker(self) -> Path:
        """The broker's key and certificate in one file; it is a client of itself, too."""
        return self.folder / "kafka.pem"

    def server(self, name: str) -> tuple[Path, Path]:
        """Certificate and key of ``registry`` or ``postgres``."""
        return self.folder / f"{name}.crt", self.folder / f"{name}.key"

    @property
    def connect_authority(self) -> Path:
        """Signed what Connect's worker and its callers show each other."""
        return self.folder / "connect-ca.crt"

    @property
    def connect_stores(self) -> tuple[Path, Path]:
        """The worker's own certificate, and whom it trusts."""
        return self.folder / "connect.p12", self.folder / "connect-trusted.p12"

    @property
    def keeper(self) -> tuple[Path, Path]:
        """Certificate and key of who may command Connect."""
        return self.folder / "keeper.crt", self.folder / "keeper.key"


def make_transport(
    folder: Path, holders: Iterable[str], store_password: str, registry_key: bytes | None = None
) -> Transport:
    """Write everything into ``folder``; ``holders`` get tokens as readers of the registry, the operator a writer's.

    ``registry_key``: in PEM, what signs these tokens; without it a key is made and not kept.

    Raises:
        InvalidConfiguration: it is no private RSA key.
    """
    signing = _read_rsa(registry_key) if registry_key else rsa.generate_private_key(65537, key_size=2048)
    transport = Transport(folder, _public(signing), _tokens(signing, holders))
    servers, connect = Issuer("gitops-service transport", LIFETIME), Issuer("gitops-service Connect", LIFETIME)
    write_private(transport.authority, _pem(servers.certificate))
    write_private(transport.connect_authority, _pem(connect.certificate))
    key, certificate = servers.issue("kafka", names_of("kafka"), (SERVER, CLIENT))
    write_private(transport.broker, _key_pem(key) + _pem(certificate))
    for name in ("registry", "postgres"):
        _write_leaf(servers, name, transport.server(name), SERVER)
    _write_leaf(connect, "connector-keeper", transport.keeper, CLIENT)
    _write_stores(connect, transport.connect_stores, store_password)
    return transport


def names_of(server: str) -> tuple[str, ...]:
    """By which it is called on this machine, and by pods."""
    return (*NAMES, name_in_cluster(server))


def _read_rsa(pem: bytes) -> rsa.RSAPrivateKey:
    try:
        key = load_pem_private_key(pem, password=None)
    except (ValueError, TypeError) as error:
        raise InvalidConfiguration("the registry's key is not a private key in PEM") from error
    if not isinstance(key, rsa.RSAPrivateKey):
        raise InvalidConfiguration("the registry's key is not an RSA key")
    return key


def _write_leaf(issuer: Issuer, name: str, files: tuple[Path, Path], usage: ObjectIdentifier) -> None:
    key, certificate = issuer.issue(name, names_of(name), (usage,))
    for file, content in zip(files, (_pem(certificate), _key_pem(key)), strict=True):
        write_private(file, content)


def _write_stores(issuer: Issuer, files: tuple[Path, Path], password: str) -> None:
    """Workers call each other: theirs is a client's certificate, too."""
    key, certificate = issuer.issue("connect", names_of("connect"), (SERVER, CLIENT))
    encryption = BestAvailableEncryption(password.encode())
    own, trusted = files
    write_private(own, pkcs12.serialize_key_and_certificates(b"connect", key, certificate, None, encryption))
    entry = pkcs12.PKCS12Certificate(issuer.certificate, b"authority")
    write_private(trusted, pkcs12.serialize_java_truststore([entry], encryption))


def _tokens(signing: rsa.RSAPrivateKey, holders: Iterable[str]) -> dict[str, str]:
    key, now = _key_pem(signing), datetime.now(UTC)
    roles = dict.fromkeys(holders, RegistryRole.READER) | {OPERATOR: RegistryRole.WRITER}
    return {holder: issue_token(key, holder, role, now, LIFETIME) for holder, role in roles.items()}


def _public(signing: rsa.RSAPrivateKey) -> str:
    encoded = signing.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return base64.b64encode(encoded).decode()


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> bytes:
    """As Java reads it."""
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())

"""The certificates, keys and tokens of a stack's cluster."""

from __future__ import annotations

import base64
import ipaddress
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID, ObjectIdentifier

from devstack.stack.node_addresses import API_SERVER, NODE
from devstack.stack.state_folder import write_private

LIFETIME = timedelta(days=3650)
OWN_NAMES = (
    *("127.0.0.1", "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"),
    *(API_SERVER, NODE),  # by pods
)
"""By which a cluster's API server is always called."""

CLOCK_SKEW = timedelta(minutes=5)


@dataclass(frozen=True)
class Account:
    """A service account whose token lies in a file, not in a Secret: there are no pods to mount one."""

    namespace: str
    name: str
    token: str
    kubeconfig: Path

    @property
    def user(self) -> str:
        """Its name for the API server, to which roles are bound."""
        return f"system:serviceaccount:{self.namespace}:{self.name}"

    @property
    def groups(self) -> str:
        """What every service account is a member of."""
        return f"system:serviceaccounts,system:serviceaccounts:{self.namespace}"


class Issuer:
    """An authority for as long as it takes to sign what is needed: its key is in memory alone."""

    def __init__(self, name: str, lifetime: timedelta) -> None:
        self._key, self._lifetime = _key(), lifetime
        subject = _name(name)
        builder = self._builder(subject, subject, self._key.public_key())
        constraints = x509.BasicConstraints(ca=True, path_length=0)
        self.certificate = builder.add_extension(constraints, critical=True).sign(self._key, hashes.SHA256())

    def issue(
        self, name: str, alternatives: Iterable[str], usages: Iterable[ObjectIdentifier], organization: str = ""
    ) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
        """A key and its certificate: for ``name`` at the host names and addresses ``alternatives``."""
        key = _key()
        builder = self._builder(_name(name, organization), self.certificate.subject, key.public_key())
        if names := [_alternative_name(each) for each in sorted(set(alternatives))]:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        builder = builder.add_extension(x509.ExtendedKeyUsage(list(usages)), critical=False)
        return key, builder.sign(self._key, hashes.SHA256())

    def _builder(
        self, subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
    ) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - CLOCK_SKEW)
            .not_valid_after(now + self._lifetime)
        )


@dataclass(frozen=True)
class NodeUser:
    """Who a program of a node is for the API server, which knows names and groups of these by itself."""

    user: str
    groups: str
    token: str
    kubeconfig: Path


@dataclass(frozen=True)
class Pki:
    """Paths of the files."""

    folder: Path

    @property
    def authority(self) -> Path:
        """Certificate that signs the server's."""
        return self.folder / "ca.crt"

    @property
    def server_certificate(self) -> Path:
        """Certificate of every TLS server of the cluster."""
        return self.folder / "server.crt"

    @property
    def server_key(self) -> Path:
        """Its key."""
        return self.folder / "server.key"

    @property
    def admin_certificate(self) -> Path:
        """Of the cluster's administrator, as kubeadm and kind give one."""
        return self.folder / "admin.crt"

    @property
    def admin_key(self) -> Path:
        """Its key."""
        return self.folder / "admin.key"

    @property
    def account_key(self) -> Path:
        """Signs the tokens of service accounts."""
        return self.folder / "service-account.key"

    @property
    def tokens(self) -> Path:
        """Who may come in with which bearer token."""
        return self.folder / "tokens.csv"

    def ensure(self, host: str) -> None:
        """Make certificates and keys for a server at ``host``, a name or an address, unless they are there."""
        if self.server_certificate.exists():
            return
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        issuer = Issuer("gitops-service local stack", LIFETIME)
        admin_key, admin = issuer.issue("admin", (), (ExtendedKeyUsageOID.CLIENT_AUTH,), organization="system:masters")
        names = (host, *OWN_NAMES)
        server_key, server = issuer.issue("kube-apiserver", names, (ExtendedKeyUsageOID.SERVER_AUTH,))
        write_private(self.account_key, _pem(_key()))
        write_private(self.server_key, _pem(server_key))
        write_private(self.authority, issuer.certificate.public_bytes(serialization.Encoding.PEM))
        write_private(self.admin_key, _pem(admin_key))
        write_private(self.admin_certificate, admin.public_bytes(serialization.Encoding.PEM))
        # Last, because its presence says that all the others are there. The authority's key is not kept at all.
        write_private(self.server_certificate, server.public_bytes(serialization.Encoding.PEM))

    def admit(self, token: str, server: str, kubeconfig: Path, accounts: Sequence[Account | NodeUser] = ()) -> None:
        """Make the bearer of ``token`` the cluster's administrator, and write the ``kubeconfig`` for that.

        The ``accounts`` may come in as well; what they may do there is for RBAC to say.
        """
        authority = self.authority.read_bytes()
        write_private(kubeconfig, _kubeconfig(server, authority, token))
        for account in accounts:
            account.kubeconfig.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_private(account.kubeconfig, _kubeconfig(server, authority, account.token))
        others = [f'{account.token},{account.user},{account.user},"{account.groups}"' for account in accounts]
        write_private(self.tokens, "\n".join([f'{token},admin,admin,"system:masters"', *others, ""]))


def _kubeconfig(server: str, authority: bytes, token: str) -> str:
    name = "gitops-local"
    cluster = {"server": server, "certificate-authority-data": base64.b64encode(authority).decode()}
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": name, "cluster": cluster}],
            "users": [{"name": name, "user": {"token": token}}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
            "current-context": name,
        }
    )


def _key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )


def _name(common_name: str, organization: str = "") -> x509.Name:
    named = {NameOID.ORGANIZATION_NAME: organization, NameOID.COMMON_NAME: common_name}
    return x509.Name([x509.NameAttribute(kind, text) for kind, text in named.items() if text])


def _alternative_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)

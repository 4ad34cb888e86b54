"""The certificates, keys and tokens of a stack's cluster."""

from __future__ import annotations

import base64
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from devstack.stack.state_folder import write_private

LIFETIME = timedelta(days=3650)
OWN_NAMES = ("127.0.0.1", "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
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
        authority_key, server_key, admin_key = _key(), _key(), _key()
        authority = _authority(authority_key)
        write_private(self.account_key, _pem(_key()))
        write_private(self.server_key, _pem(server_key))
        write_private(self.authority, authority.public_bytes(serialization.Encoding.PEM))
        write_private(self.admin_key, _pem(admin_key))
        admin = _admin(admin_key, authority, authority_key)
        write_private(self.admin_certificate, admin.public_bytes(serialization.Encoding.PEM))
        server = _server(server_key, authority, authority_key, host)
        # Last, because its presence says that all the others are there. The authority's key is not kept at all.
        write_private(self.server_certificate, server.public_bytes(serialization.Encoding.PEM))

    def admit(self, token: str, server: str, kubeconfig: Path, accounts: Sequence[Account] = ()) -> None:
        """Make the bearer of ``token`` the cluster's administrator, and write the ``kubeconfig`` for that.

        The ``accounts`` may come in as well; what they may do there is for RBAC to say.
        """
        authority = self.authority.read_bytes()
        write_private(kubeconfig, _kubeconfig(server, authority, token))
        for account in accounts:
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


def _authority(key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
    name = _name("gitops-service local stack")
    builder = _builder(name, name, key.public_key())
    return builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True).sign(
        key, hashes.SHA256()
    )


def _server(
    key: ec.EllipticCurvePrivateKey, authority: x509.Certificate, signer: ec.EllipticCurvePrivateKey, host: str
) -> x509.Certificate:
    names = [_alternative_name(name) for name in sorted({host, *OWN_NAMES})]
    return (
        _builder(_name("kube-apiserver"), authority.subject, key.public_key())
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(signer, hashes.SHA256())
    )


def _admin(
    key: ec.EllipticCurvePrivateKey, authority: x509.Certificate, signer: ec.EllipticCurvePrivateKey
) -> x509.Certificate:
    organisation = x509.NameAttribute(NameOID.ORGANIZATION_NAME, "system:masters")
    subject = x509.Name([organisation, x509.NameAttribute(NameOID.COMMON_NAME, "admin")])
    usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])
    builder = _builder(subject, authority.subject, key.public_key()).add_extension(usage, critical=False)
    return builder.sign(signer, hashes.SHA256())


def _alternative_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(now + LIFETIME)
    )


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])

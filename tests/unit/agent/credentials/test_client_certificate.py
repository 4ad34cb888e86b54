"""Client certificates of tenants: which are taken, and what a hostile one is told."""

from __future__ import annotations

import base64
import ssl
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import NameOID

from services.agent.credentials.clusters.client_certificate import (
    MAX_CERTIFICATE_BYTES,
    MAX_KEY_BYTES,
    ClientCertificate,
)
from tests.unit.agent.credentials.test_loop_lag import HOSTILE_KEYS

KEYS = {
    "ecdsa": ec.generate_private_key(ec.SECP256R1()),
    "rsa": rsa.generate_private_key(65537, 2048),
    "ed25519": ed25519.Ed25519PrivateKey.generate(),
}
KEY_REFUSED = "client-key-data is not base64 of a PEM key that is accepted"


def certificate_of(key: Any) -> str:
    name, now = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "admin")]), datetime.now(UTC)
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(now).not_valid_after(now + timedelta(days=1))
    algorithm = None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256()
    return builder.sign(key, algorithm).public_bytes(serialization.Encoding.PEM).decode()


def key_text(key: Any, password: bytes = b"") -> str:
    protection = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
    pem, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    text: str = key.private_bytes(pem, form, protection).decode()
    return text


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def refusal_of(chain: str, key: str) -> str:
    with pytest.raises(ValueError, match=r"client-") as refused:
        ClientCertificate(chain, key).load_into(ssl.create_default_context())
    assert refused.value.__context__ is None
    assert key not in str(refused.value)
    return str(refused.value)


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
def test_certificate_when_its_key_is_an_ordinary_one_then_it_is_taken(key: Any) -> None:
    certificate = ClientCertificate(encoded(certificate_of(key)), encoded(key_text(key)))
    certificate.load_into(ssl.create_default_context())
    assert certificate.key not in repr(certificate)


def test_certificate_when_the_key_is_anothers_then_refused() -> None:
    told = refusal_of(encoded(certificate_of(KEYS["rsa"])), encoded(key_text(KEYS["ecdsa"])))
    assert told.endswith("do not belong together")


@pytest.mark.parametrize("text", [each for each, _ in HOSTILE_KEYS.values()], ids=HOSTILE_KEYS)
def test_key_when_it_would_cost_or_hang_then_refused(text: str) -> None:
    assert refusal_of(encoded(certificate_of(KEYS["rsa"])), encoded(text)).startswith(KEY_REFUSED)


def test_key_when_it_is_protected_then_refused_and_nobody_is_asked_for_its_passphrase() -> None:
    protected = encoded(key_text(KEYS["ecdsa"], b"secret"))
    assert refusal_of(encoded(certificate_of(KEYS["ecdsa"])), protected).startswith(KEY_REFUSED)


@pytest.mark.parametrize(("chain", "key", "named"), [
    ("%%%", encoded(key_text(KEYS["ecdsa"])), "client-certificate-data"),
    (encoded("no certificate"), encoded(key_text(KEYS["ecdsa"])), "client-certificate-data"),
    (encoded("x" * (MAX_CERTIFICATE_BYTES + 1)), encoded(key_text(KEYS["ecdsa"])), "client-certificate-data"),
    (encoded(certificate_of(KEYS["ecdsa"])), "%%%", "client-key-data"),
    (encoded(certificate_of(KEYS["ecdsa"])), encoded("x" * (MAX_KEY_BYTES + 1)), "client-key-data"),
    (encoded(certificate_of(KEYS["ecdsa"])), base64.b64encode(b"\xff\xfe").decode(), "client-key-data"),
])  # fmt: skip
def test_certificate_when_it_cannot_be_read_or_is_too_long_then_the_field_is_named(
    chain: str, key: str, named: str
) -> None:
    assert refusal_of(chain, key).startswith(named)

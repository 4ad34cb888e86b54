"""Until when the certificates are valid on which an instance depends."""

from __future__ import annotations

import base64
from datetime import timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from services.agent.health.certificates import (
    LOOK_SECONDS,
    OF_API_SERVER,
    OF_REPO_SERVER,
    REPO_SERVER_SECRET,
    Certificates,
)
from services.common.errors import Retry
from tests.unit.agent.fakes import MemoryCluster
from tests.unit.fake_clock import EPOCH, FakeClock

LIFETIME = timedelta(days=90)
KEY = ec.generate_private_key(ec.SECP256R1())
DER, PEM = serialization.Encoding.DER, serialization.Encoding.PEM


def certificate(days_left: float) -> x509.Certificate:
    name, end = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "argocd")]), EPOCH + timedelta(days=days_left)
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(KEY.public_key())
    builder = builder.serial_number(1).not_valid_before(end - LIFETIME).not_valid_after(end)
    return builder.sign(KEY, hashes.SHA256())


def of_repo_server(*days_left: float) -> dict[str, object]:
    """The Secret, with a chain of certificates."""
    chain = b"".join(certificate(each).public_bytes(PEM) for each in days_left)
    return {"data": {"tls.crt": base64.b64encode(chain).decode()}}


@pytest.fixture
def cluster() -> MemoryCluster:
    found = MemoryCluster(FakeClock())
    found.certificate = certificate(30).public_bytes(DER)
    return found


@pytest.fixture
def certificates(cluster: MemoryCluster) -> Certificates:
    return Certificates(cluster, "argocd", cluster.clock)  # type: ignore[arg-type]


async def remaining(certificates: Certificates) -> dict[str, float]:
    """Days, by whose it is."""
    return {each.name: each.remaining / timedelta(days=1) for each in await certificates.look()}


async def test_certificates_when_looked_at_then_those_of_the_api_server_and_of_the_repo_server_are_told(
    cluster: MemoryCluster, certificates: Certificates
) -> None:
    cluster.put("Secret", REPO_SERVER_SECRET, of_repo_server(20, 2000))
    assert await remaining(certificates) == {OF_API_SERVER: 30, OF_REPO_SERVER: 20}
    assert {each.lifetime for each in await certificates.look()} == {LIFETIME}


@pytest.mark.parametrize(
    "content", [{}, {"data": None}, {"data": {"tls.crt": "bm90aGluZw=="}}, {"data": {"tls.crt": 7}}]
)
async def test_certificate_when_it_cannot_be_read_then_it_is_no_signal(
    cluster: MemoryCluster, certificates: Certificates, content: dict[str, object]
) -> None:
    cluster.put("Secret", REPO_SERVER_SECRET, content)
    assert await remaining(certificates) == {OF_API_SERVER: 30}


async def test_certificates_when_the_api_server_does_not_answer_then_there_is_no_signal(
    cluster: MemoryCluster, certificates: Certificates
) -> None:
    cluster.failing = Retry("no answer")
    assert await certificates.look() == ()


async def test_certificate_when_it_is_renewed_then_that_is_seen_at_the_next_look_and_until_then_it_grows_older(
    cluster: MemoryCluster, certificates: Certificates
) -> None:
    assert await remaining(certificates) == {OF_API_SERVER: 30}
    cluster.certificate = certificate(90).public_bytes(DER)
    await cluster.clock.advance(LOOK_SECONDS / 2)
    (before,) = (await remaining(certificates)).values()
    assert before < 30
    await cluster.clock.advance(LOOK_SECONDS / 2)
    (after,) = (await remaining(certificates)).values()
    assert after > 89

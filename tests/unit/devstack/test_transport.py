"""The certificates of a stack with ``--tls``: closed to others, for one use each, and signed by whom they should be."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID
from joserfc import jwt
from joserfc.jwk import RSAKey

from devstack.components.java import properties
from devstack.stack.transport import LIFETIME, OPERATOR, Transport, make_transport
from services.common.errors import InvalidConfiguration

SERVER, CLIENT = ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH


@pytest.fixture(scope="module")
def transport(tmp_path_factory: pytest.TempPathFactory) -> Transport:
    return make_transport(tmp_path_factory.mktemp("transport"), ("watcher", "connect"), "password")


def certificate(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def test_files_when_made_then_they_are_closed_to_others(transport: Transport) -> None:
    assert [path for path in transport.folder.iterdir() if path.stat().st_mode & 0o077] == []


def test_authorities_when_made_then_their_keys_are_not_kept(transport: Transport) -> None:
    kept = b"".join(path.read_bytes() for path in transport.folder.iterdir())
    assert kept.count(b"BEGIN PRIVATE KEY") == len(("kafka", "registry", "postgres", "keeper"))


def test_certificates_when_made_then_each_is_of_its_authority_for_its_use_and_short_lived(transport: Transport) -> None:
    wanted = {
        transport.broker: (transport.authority, [SERVER, CLIENT]),
        transport.server("registry")[0]: (transport.authority, [SERVER]),
        transport.server("postgres")[0]: (transport.authority, [SERVER]),
        transport.keeper[0]: (transport.connect_authority, [CLIENT]),
    }
    for file, (authority, usages) in wanted.items():
        found = certificate(file)
        found.verify_directly_issued_by(certificate(authority))
        assert list(found.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value) == usages
        assert found.not_valid_after_utc - found.not_valid_before_utc <= 2 * LIFETIME


def test_tokens_when_made_then_only_the_operators_permits_writing(transport: Transport) -> None:
    key = RSAKey.import_key(
        "-----BEGIN PUBLIC KEY-----\n" + transport.registry_public_key + "\n-----END PUBLIC KEY-----\n"
    )
    roles = {holder: jwt.decode(token, key).claims["groups"] for holder, token in transport.registry_tokens.items()}
    assert roles == {"watcher": ["sr-readonly"], "connect": ["sr-readonly"], OPERATOR: ["sr-developer"]}


def test_tokens_when_an_operators_key_is_given_then_that_signs_them(tmp_path: Path) -> None:
    key = RSAKey.generate_key(2048, private=True)
    given = make_transport(tmp_path, ("watcher",), "password", key.as_pem(private=True))
    assert jwt.decode(given.registry_tokens["watcher"], key).claims["sub"] == "watcher"
    assert given.registry_public_key in key.as_pem(private=False).decode().replace("\n", "")


def test_key_of_the_registry_when_it_is_none_then_it_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfiguration, match="registry's key"):
        make_transport(tmp_path, ("watcher",), "password", b"no key")


def test_properties_when_read_then_a_value_may_hold_an_equals_sign(tmp_path: Path) -> None:
    file = tmp_path / "a.properties"
    file.write_text("# why\na=User:CN=kafka;User:operator\n\nb=\n")
    assert properties(file) == {"a": "User:CN=kafka;User:operator", "b": ""}

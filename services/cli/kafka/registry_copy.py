"""A copy of all that the schema registry holds, with its ids: each message on the log names its schema by one of these.

A registry that was filled anew would give out ids in another order, and an id would mean another schema, or none.
Apicurio's own export has the ids; its Confluent-compatible API has no export.
"""

from __future__ import annotations

import io
import json
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from zipfile import BadZipFile, ZipFile

import httpx2

from services.common.errors import InvalidConfiguration, NoPermission, Retry
from services.common.settings import SchemaRegistrySettings

ADMIN = "/apis/registry/v2/admin"
API = "/apis/"
REQUEST_SECONDS = 30.0
VERSION = ".ArtifactVersion.json"


def export_registry(settings: SchemaRegistrySettings) -> bytes:
    """Everything that the registry holds, a ZIP file. Raises Retry, NoPermission."""
    return _call(settings, "GET", "/export", headers={"Accept": "application/zip"}).content


def import_registry(settings: SchemaRegistrySettings, copy: bytes) -> None:
    """Put back what was exported, each schema under its id. Raises Retry, NoPermission, InvalidConfiguration."""
    _call(settings, "POST", "/import", content=copy, headers={"Content-Type": "application/zip"})


def subjects_of(copy: bytes) -> dict[str, int]:
    """How many versions of each subject a copy has. Raises InvalidConfiguration if it is none."""
    found: dict[str, int] = {}
    try:
        with ZipFile(io.BytesIO(copy)) as archive:
            for name in archive.namelist():
                if name.endswith(VERSION):
                    subject = json.loads(archive.read(name))["artifactId"]
                    found[subject] = found.get(subject, 0) + 1
    except (BadZipFile, KeyError, ValueError) as error:
        raise InvalidConfiguration(f"not a copy of a registry: {error}") from error
    if not found:
        raise InvalidConfiguration("not a copy of a registry: it has no schema")
    return found


def _call(
    settings: SchemaRegistrySettings, method: str, path: str, *, headers: dict[str, str], content: bytes = b""
) -> httpx2.Response:
    """One request to Apicurio's administration."""
    token = settings.schema_registry_token.get_secret_value()
    with _answered(), _client(settings) as client:
        authorization = {"Authorization": f"Bearer {token}"} if token else {}
        answer = client.request(method, ADMIN + path, headers=headers | authorization, content=content)
    if answer.status_code in (httpx2.codes.UNAUTHORIZED, httpx2.codes.FORBIDDEN):
        raise NoPermission("the registry refuses SCHEMA_REGISTRY_TOKEN: an administrator's is needed")
    if answer.is_server_error:
        raise Retry(f"the registry answers HTTP {answer.status_code}")
    if not answer.is_success:
        raise InvalidConfiguration(f"the registry refuses it: HTTP {answer.status_code}")
    return answer


def _client(settings: SchemaRegistrySettings) -> httpx2.Client:
    """A client of the server whose Confluent-compatible API SCHEMA_REGISTRY_URL names."""
    tls = ssl.create_default_context(cafile=settings.schema_registry_ca)
    base = settings.schema_registry_url.partition(API)[0]
    return httpx2.Client(base_url=base, timeout=REQUEST_SECONDS, verify=tls)


@contextmanager
def _answered() -> Iterator[None]:
    """Raises Retry if the registry does not answer, InvalidConfiguration if its authority is no certificate."""
    try:
        yield
    except httpx2.HTTPError as error:
        raise Retry(str(error) or type(error).__name__) from error
    except ssl.SSLError as error:
        raise InvalidConfiguration(f"SCHEMA_REGISTRY_CA: {error.reason}") from error

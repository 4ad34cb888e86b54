"""The schema registry, and this repository's own schemas."""

from __future__ import annotations

import json
import ssl
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import fastavro
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.error import SchemaRegistryError
from fastavro.schema import SchemaParseException, UnknownType, to_parsing_canonical_form
from httpx2 import HTTPError

from services.common.errors import InvalidConfiguration, NoPermission, Poison, Retry
from services.common.package_data import AVRO_SCHEMAS
from services.common.settings import SchemaRegistrySettings

REQUEST_TIMEOUT_SECONDS = 5  # the client has none of its own: without it a silent registry stops a service for ever

SUBJECTS = {
    "gitops.commands-value": "command.avsc",
    "gitops.observations-value": "observation.avsc",
    "gitops.dead-letters-value": "dead_letter.avsc",
    "gitops.fleet-orders-value": "fleet_order.avsc",
}
"""Schema files by subject, for messages that our services write."""

COMPILED_SUBJECTS = {
    "gitops.public.engine_clusters.Key": "compiled/cluster_key.avsc",
    "gitops.public.engine_clusters.Value": "compiled/cluster_value.avsc",
    "gitops.public.engine_instances.Key": "compiled/fleet_key.avsc",
    "gitops.public.engine_instances.Value": "compiled/fleet_value.avsc",
    "gitops.public.engine_pools.Key": "compiled/pool_key.avsc",
    "gitops.public.engine_pools.Value": "compiled/pool_value.avsc",
    "gitops.public.engine_resources.Key": "compiled/engine_key.avsc",
    "gitops.public.engine_resources.Value": "compiled/engine_value.avsc",
    "gitops.public.pending_claims.Key": "compiled/claim_key.avsc",
    "gitops.public.pending_claims.Value": "compiled/claim_value.avsc",
    "gitops.public.tenant_clusters.Key": "compiled/tenant_clusters_key.avsc",
    "gitops.public.tenant_clusters.Value": "compiled/tenant_clusters_value.avsc",
    "gitops.public.tenant_pins.Key": "compiled/pin_key.avsc",
    "gitops.public.tenant_pins.Value": "compiled/pin_value.avsc",
    "gitops.public.workspace_assignments.Key": "compiled/assignment_key.avsc",
    "gitops.public.workspace_assignments.Value": "compiled/assignment_value.avsc",
    "gitops.public.workspace_objects.Key": "compiled/object_key.avsc",
    "gitops.public.workspace_objects.Value": "compiled/object_value.avsc",
    "gitops.public.workspace_resources.Key": "compiled/workspace_key.avsc",
    "gitops.public.workspace_resources.Value": "compiled/workspace_value.avsc",
    "io.debezium.connector.common.ServerNameKey": "compiled/heartbeat_key.avsc",
    "io.debezium.connector.common.Heartbeat": "compiled/heartbeat_value.avsc",
}
"""Schema files by subject, for what Connect writes: rows of the compiled tables, and its heartbeat. Connect finds a
schema by its content and registers none. So a migration whose rows have another schema stops the connector, before a
reader gets such a row."""

NOT_FOUND = 404
REFUSALS = (401, 403)
BEING_REGISTERED = "already exists"
"""Part of Apicurio's answer while an earlier request for the same schema, which timed out here, is still running."""


def value_subject(topic: str) -> str:
    """The subject of a topic's values."""
    return f"{topic}-value"


def registry_at(url: str) -> str:
    """The registry's name in errors, without user name and password."""
    parts = urlsplit(url)
    return f"schema registry at {parts._replace(netloc=parts.netloc.rpartition('@')[2]).geturl()}"


def local_schemas(folder: Path = AVRO_SCHEMAS) -> dict[str, dict[str, Any]]:
    """The repository's schemas by subject."""
    files = SUBJECTS | COMPILED_SUBJECTS
    return {subject: json.loads((folder / file).read_text()) for subject, file in files.items()}


Registry = SchemaRegistrySettings | str
"""Settings with our credentials, or only the base of the API of a registry that asks for none."""


def registry_properties(registry: Registry) -> dict[str, Any]:
    """Properties of the client. They include the token: never log them."""
    if isinstance(registry, str):
        return {"url": registry, "timeout": REQUEST_TIMEOUT_SECONDS}
    properties = registry_properties(registry.schema_registry_url)
    if registry.schema_registry_ca is not None:
        properties["ssl.ca.location"] = str(registry.schema_registry_ca)
    if token := registry.schema_registry_token.get_secret_value():
        properties |= {
            "bearer.auth.credentials.source": "STATIC_TOKEN",
            "bearer.auth.token": token,
            "bearer.auth.logical.cluster": "",  # the client insists on it; only Confluent's own cloud reads it
        }
    return properties


class SchemaRegistry:
    """Schemas by id and ids by subject, each requested once."""

    def __init__(self, registry: Registry) -> None:
        """Raises InvalidConfiguration if SCHEMA_REGISTRY_CA holds no certificates."""
        self.name = registry_at(registry if isinstance(registry, str) else registry.schema_registry_url)
        self._properties = registry_properties(registry)
        try:
            self._client = SchemaRegistryClient(self._properties)
        except ssl.SSLError as error:
            raise InvalidConfiguration("SCHEMA_REGISTRY_CA holds no certificates in PEM") from error
        self._by_id: dict[int, Any] = {}
        self._ids: dict[str, int] = {}
        """The ids of this build's schemas, by subject."""
        self._local = local_schemas()

    def local_schema(self, subject: str) -> Any:
        """The parsed schema of ``subject`` in this build."""
        return fastavro.parse_schema(self._local[subject])

    def id_of(self, subject: str) -> int:
        """The id of this build's schema of ``subject``.

        Raises InvalidConfiguration if it is not registered, NoPermission if the registry refuses us, Retry if it does
        not answer.
        """
        schema = Schema(json.dumps(self._local[subject]), "AVRO")
        try:
            registered = self._client.lookup_schema(subject, schema)
        except SchemaRegistryError as error:
            _require_permission(error)
            if error.http_status_code != NOT_FOUND:
                raise Retry(f"schema registry: {error}") from error
            raise InvalidConfiguration(
                f"the schema of {subject} is not registered; run 'gitopsctl schemas apply'"
            ) from error
        except (HTTPError, OSError) as error:
            raise Retry(f"schema registry does not answer: {error}") from error
        self._ids[subject] = _schema_id(registered.schema_id)
        return self._ids[subject]

    def require_own_schemas(self) -> None:
        """Raises Retry unless the registry still has our schemas under their ids: otherwise it was lost.

        Its answers about other ids mean nothing then.
        """
        client = SchemaRegistryClient(self._properties)  # our own caches answers
        for subject, schema_id in self._ids.items():
            try:
                held = _parsed(schema_id, _fetched(client, schema_id))
            except Poison as error:
                raise Retry(f"the schema registry has lost its schemas: {error}") from error
            if _canonical(held) != _canonical(self.local_schema(subject)):
                raise Retry(f"the schema registry gives another schema than that of {subject} the id {schema_id}")

    def is_empty(self) -> bool:
        """Whether it has no schemas. Raises NoPermission, Retry."""
        try:
            return not self._client.get_subjects()
        except SchemaRegistryError as error:
            _require_permission(error)
            raise Retry(f"schema registry: {error}") from error
        except (HTTPError, OSError) as error:
            raise Retry(f"schema registry does not answer: {error}") from error

    def schema_by_id(self, schema_id: int) -> Any:
        """The parsed schema ``schema_id``.

        Raises Poison if there is none, Retry if the registry does not answer or has lost its schemas.
        """
        if schema_id not in self._by_id:
            try:
                self._by_id[schema_id] = _parsed(schema_id, _fetched(self._client, schema_id))
            except Poison:
                self.require_own_schemas()
                raise
        return self._by_id[schema_id]

    def register_schema(self, subject: str) -> int:
        """Register this build's schema under BACKWARD compatibility and return its id.

        Raises InvalidConfiguration if the schema is refused, NoPermission if we are, Retry if the registry does not
        answer.
        """
        schema = Schema(json.dumps(self._local[subject]), "AVRO")
        try:
            self._client.set_compatibility(subject_name=subject, level="BACKWARD")
            return _schema_id(self._client.register_schema(subject, schema))
        except SchemaRegistryError as error:
            _require_permission(error)
            if BEING_REGISTERED in error.error_message:
                raise Retry(f"schema registry: {error.error_message}") from error
            raise InvalidConfiguration(f"schema of {subject} was refused: {error.error_message}") from error
        except (HTTPError, OSError) as error:
            raise Retry(f"schema registry does not answer: {error}") from error


def _fetched(client: SchemaRegistryClient, schema_id: int) -> str:
    """The text of a schema. Raises Poison if there is none, Retry if the registry does not answer."""
    try:
        return str(client.get_schema(schema_id).schema_str)
    except SchemaRegistryError as error:
        if error.http_status_code == NOT_FOUND:
            raise Poison(f"schema {schema_id} is not in the registry") from error
        raise Retry(f"schema registry: {error}") from error
    except (HTTPError, OSError) as error:
        raise Retry(f"schema registry does not answer: {error}") from error


def _canonical(schema: Any) -> str:
    """A form that is equal for schemas that read the same bytes alike."""
    return to_parsing_canonical_form(schema)


def _require_permission(error: SchemaRegistryError) -> None:
    """Raises NoPermission if that is the problem. Such an answer has no text."""
    if error.http_status_code in REFUSALS:
        raise NoPermission(
            f"the schema registry refuses SCHEMA_REGISTRY_TOKEN (HTTP {error.http_status_code})"
        ) from error


def _schema_id(answer: int | None) -> int:
    if answer is None:
        raise Retry("schema registry answered without a schema id")
    return answer


def _parsed(schema_id: int, text: str) -> Any:
    try:
        return fastavro.parse_schema(json.loads(text))
    except (ValueError, SchemaParseException, UnknownType) as error:
        raise Poison(f"schema {schema_id} is not an Avro schema") from error

"""The topics as declared in ``topics.yaml``, and the rights of each principal as declared in ``acls.yaml``.

Both files are package data: they declare the topics for services, commands and tests alike.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, TypeAdapter, ValidationError

from services.common.errors import InvalidConfiguration

TOPICS_FILE = Path(__file__).with_name("topics.yaml")
ACLS_FILE = Path(__file__).with_name("acls.yaml")

COMMANDS = "gitops.commands"
OBSERVATIONS = "gitops.observations"
"""Prefix of the topics of observations; :func:`observations_topic` has an engine cluster's. The topic with this name
itself is the former one of all clusters."""
ENGINE = "gitops.engine"
"""Prefix of the topics of compiled rows; :func:`engine_topic` has an engine cluster's."""
WORKSPACE = "gitops.workspace"
"""Topic of the statuses of workspaces that were not added; :func:`workspace_topic` has that of the others."""
OBJECTS = "gitops.objects"
"""Topic of the child objects of workspaces that were not added; :func:`objects_topic` has that of the others."""
DEAD_LETTERS = "gitops.dead-letters"
FLEET = "gitops.fleet"
"""The engine instances."""
PLACEMENT = "gitops.placement"
"""The assignments of workspaces and tenants."""
PROVISIONING = "gitops.provisioning"
"""Claims that wait for a provisioner of others."""
TENANT_CLUSTERS = "gitops.tenant-clusters"
"""The engine cluster of each tenant, for watchers that seal its Secrets."""
FLEET_ORDERS = "gitops.fleet-orders"
"""Operators' orders about the fleet. It has one partition, so orders have one order."""

WORKSPACE_NAME = r"^[A-Za-z0-9]([A-Za-z0-9._-]{0,41}[A-Za-z0-9])?$"
"""Pattern of workspaces' names. Topic, principal and group contain the name, and so does a table's, of 63 bytes."""
WORKSPACE_PLACEHOLDER, WORKSPACE_DOCUMENT = "<workspace>", 1
"""Placeholder of that name, and the number of its document in both files."""
ENGINE_CLUSTER_NAME = r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"
"""Pattern of engine clusters' names: a DNS label. Topic, principal and group contain the name."""
ENGINE_CLUSTER_PLACEHOLDER, ENGINE_CLUSTER_DOCUMENT = "<engine-cluster>", 2
DEFAULT_ENGINE_CLUSTER = "default"
"""The engine cluster that every installation has."""

Name = Annotated[str, StringConstraints(pattern=r"^[a-zA-Z0-9._-]{1,249}$")]
"""A literal name: no pattern, no ``*``."""

PrincipalName = Annotated[str, StringConstraints(pattern=r"^[a-z][A-Za-z0-9._-]{0,99}$")]
TopicOperation = Literal["read", "write", "create", "describe", "describe_configs"]
GroupOperation = Literal["read", "describe"]


class Topic(BaseModel):
    """The declaration of one topic."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Name
    partitions: int = Field(ge=1, le=1000)
    config: dict[str, str] = Field(default_factory=dict, description="Topic settings as the broker names them.")


class Rights(BaseModel):
    """The rights of one principal. It has no others."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    topics: dict[Name, tuple[TopicOperation, ...]] = Field(default_factory=dict)
    topic_prefixes: dict[Name, tuple[TopicOperation, ...]] = Field(
        default_factory=dict, description="Of all topics whose names begin so, those that do not exist yet included."
    )
    groups: dict[Name, tuple[GroupOperation, ...]] = Field(default_factory=dict)


def load_topics(path: Path = TOPICS_FILE, *, workspace: str = "", engine_cluster: str = "") -> tuple[Topic, ...]:
    """The declared topics; those of a workspace or engine cluster if one is given.

    Raises InvalidConfiguration: file and field.
    """
    return tuple(_load(path, list[Topic], workspace, engine_cluster))


def load_acls(path: Path = ACLS_FILE, *, workspace: str = "", engine_cluster: str = "") -> dict[str, Rights]:
    """Rights by principal; those of the principals of a workspace or engine cluster if one is given.

    Raises InvalidConfiguration: file and field.
    """
    return dict(_load(path, dict[PrincipalName, Rights], workspace, engine_cluster))


def _load(path: Path, shape: Any, workspace: str, engine_cluster: str) -> Any:
    """One of the documents. A file without the document declares nothing there."""
    number = WORKSPACE_DOCUMENT if workspace else ENGINE_CLUSTER_DOCUMENT if engine_cluster else 0
    try:
        text = path.read_text().replace(WORKSPACE_PLACEHOLDER, workspace)
        documents = list(yaml.safe_load_all(text.replace(ENGINE_CLUSTER_PLACEHOLDER, engine_cluster)))
        return TypeAdapter(shape).validate_python(documents[number]) if number < len(documents) else shape()
    except (OSError, yaml.YAMLError, ValidationError) as error:
        raise InvalidConfiguration(f"{path}: {error}") from error


def workspace_topic(workspace: str) -> str:
    """The topic of this workspace's statuses. Only its watchers read it."""
    return f"{WORKSPACE}.{workspace}"


def objects_topic(workspace: str) -> str:
    """The topic of this workspace's child objects. Only its watchers read it."""
    return f"{OBJECTS}.{workspace}"


def engine_topic(engine_cluster: str) -> str:
    """The topic of the compiled rows of this engine cluster's instances. Only its agents read it."""
    return f"{ENGINE}.{engine_cluster}"


def observations_topic(engine_cluster: str) -> str:
    """The topic of this engine cluster's observations. Only its agents and its provisioner write it."""
    return f"{OBSERVATIONS}.{engine_cluster}"


def is_observations_topic(topic: str) -> bool:
    """Whether it is the topic of one engine cluster's observations, or the former one of all clusters."""
    return topic == OBSERVATIONS or topic.startswith(observations_topic(""))


def reporting_cluster(topic: str) -> str | None:
    """The engine cluster whose agents write observations to this topic; None if it is no such topic."""
    cluster = topic.removeprefix(observations_topic(""))
    return cluster if cluster != topic else None


def log_of(topic: str) -> str:
    """The name that codecs and schemas use for a topic. It is the same for all topics of observations."""
    return OBSERVATIONS if is_observations_topic(topic) else topic


def is_engine_topic(topic: str) -> bool:
    """Whether it is a topic of compiled rows, including the former one of all clusters."""
    return topic == ENGINE or topic.startswith(engine_topic(""))


def tenant_key(workspace: str, namespace: str) -> bytes:
    """The message key that keeps everything about a tenant in one partition."""
    return f"{workspace}/{namespace}".encode()

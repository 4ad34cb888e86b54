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
"""What the topics of observations begin with: those of an engine cluster are on :func:`observations_topic`. Under this
name itself there is one where agents of all clusters wrote before each cluster had its own."""
ENGINE = "gitops.engine"
"""What the topics of compiled rows begin with: those of an engine cluster are on :func:`engine_topic`."""
WORKSPACE = "gitops.workspace"
"""Statuses of workspaces that were not added; those of the others are on :func:`workspace_topic`."""
OBJECTS = "gitops.objects"
"""Child objects of workspaces that were not added; those of the others are on :func:`objects_topic`."""
DEAD_LETTERS = "gitops.dead-letters"
FLEET = "gitops.fleet"
"""Which engine instances there are."""
PLACEMENT = "gitops.placement"
"""What workspaces and tenants are assigned to."""
PROVISIONING = "gitops.provisioning"
"""Claims that wait for a provisioner of others."""
TENANT_CLUSTERS = "gitops.tenant-clusters"
"""In which engine cluster each tenant is, for watchers that seal its Secrets."""
FLEET_ORDERS = "gitops.fleet-orders"
"""What operators order of them. One partition: orders have one order."""

WORKSPACE_NAME = r"^[A-Za-z0-9]([A-Za-z0-9._-]{0,41}[A-Za-z0-9])?$"
"""What a workspace may be called. Topic, principal and group contain the name, and so does a table, in 63 bytes."""
WORKSPACE_PLACEHOLDER, WORKSPACE_DOCUMENT = "<workspace>", 1
"""What stands for that name, and in which document of both files."""
ENGINE_CLUSTER_NAME = r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"
"""What an engine cluster may be called: a DNS label. Topic, principal and group contain the name."""
ENGINE_CLUSTER_PLACEHOLDER, ENGINE_CLUSTER_DOCUMENT = "<engine-cluster>", 2
DEFAULT_ENGINE_CLUSTER = "default"
"""Of those who have one: every installation has it."""

Name = Annotated[str, StringConstraints(pattern=r"^[a-zA-Z0-9._-]{1,249}$")]
"""A name as it is: no pattern, no ``*``."""

PrincipalName = Annotated[str, StringConstraints(pattern=r"^[a-z][A-Za-z0-9._-]{0,99}$")]
TopicOperation = Literal["read", "write", "create", "describe", "describe_configs"]
GroupOperation = Literal["read", "describe"]


class Topic(BaseModel):
    """One topic as it shall be."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Name
    partitions: int = Field(ge=1, le=1000)
    config: dict[str, str] = Field(default_factory=dict, description="Topic settings as the broker names them.")


class Rights(BaseModel):
    """What one principal may do; what is not listed it may not."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    topics: dict[Name, tuple[TopicOperation, ...]] = Field(default_factory=dict)
    topic_prefixes: dict[Name, tuple[TopicOperation, ...]] = Field(
        default_factory=dict, description="Of all topics whose names begin so, those that do not exist yet included."
    )
    groups: dict[Name, tuple[GroupOperation, ...]] = Field(default_factory=dict)


def load_topics(path: Path = TOPICS_FILE, *, workspace: str = "", engine_cluster: str = "") -> tuple[Topic, ...]:
    """The declared topics; those of a workspace or of an engine cluster if one is given.

    Raises InvalidConfiguration: file and field.
    """
    return tuple(_load(path, list[Topic], workspace, engine_cluster))


def load_acls(path: Path = ACLS_FILE, *, workspace: str = "", engine_cluster: str = "") -> dict[str, Rights]:
    """Rights by principal; of the principals of a workspace or of an engine cluster if one is given.

    Raises InvalidConfiguration likewise.
    """
    return dict(_load(path, dict[PrincipalName, Rights], workspace, engine_cluster))


def _load(path: Path, shape: Any, workspace: str, engine_cluster: str) -> Any:
    """One of the documents; a file without it declares nothing there."""
    number = WORKSPACE_DOCUMENT if workspace else ENGINE_CLUSTER_DOCUMENT if engine_cluster else 0
    try:
        text = path.read_text().replace(WORKSPACE_PLACEHOLDER, workspace)
        documents = list(yaml.safe_load_all(text.replace(ENGINE_CLUSTER_PLACEHOLDER, engine_cluster)))
        return TypeAdapter(shape).validate_python(documents[number]) if number < len(documents) else shape()
    except (OSError, yaml.YAMLError, ValidationError) as error:
        raise InvalidConfiguration(f"{path}: {error}") from error


def workspace_topic(workspace: str) -> str:
    """The topic of this workspace's statuses, which its watchers alone read."""
    return f"{WORKSPACE}.{workspace}"


def objects_topic(workspace: str) -> str:
    """The topic of this workspace's child objects, which its watchers alone read."""
    return f"{OBJECTS}.{workspace}"


def engine_topic(engine_cluster: str) -> str:
    """The topic of the compiled rows of this engine cluster's instances, which its agents alone read."""
    return f"{ENGINE}.{engine_cluster}"


def observations_topic(engine_cluster: str) -> str:
    """The topic of what this engine cluster's agents report, which they and its provisioner alone write."""
    return f"{OBSERVATIONS}.{engine_cluster}"


def is_observations_topic(topic: str) -> bool:
    """Whether it holds observations of one engine cluster, or of all, as before each had its own."""
    return topic == OBSERVATIONS or topic.startswith(observations_topic(""))


def reporting_cluster(topic: str) -> str | None:
    """The engine cluster whose agents alone write observations to this topic; None if it is not such a topic."""
    cluster = topic.removeprefix(observations_topic(""))
    return cluster if cluster != topic else None


def log_of(topic: str) -> str:
    """Which log a topic is a part of, as codecs and schemas know it: all topics of observations are one."""
    return OBSERVATIONS if is_observations_topic(topic) else topic


def is_engine_topic(topic: str) -> bool:
    """Whether it is one of those, or what releases before had for all clusters."""
    return topic == ENGINE or topic.startswith(engine_topic(""))


def tenant_key(workspace: str, namespace: str) -> bytes:
    """The message key that keeps all that concerns a tenant in one partition."""
    return f"{workspace}/{namespace}".encode()

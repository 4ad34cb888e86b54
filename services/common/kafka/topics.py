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
ENGINE = "gitops.engine"
WORKSPACE = "gitops.workspace"
DEAD_LETTERS = "gitops.dead-letters"


Name = Annotated[str, StringConstraints(pattern=r"^[a-zA-Z0-9._-]{1,249}$")]
"""A name as it is: no pattern, no ``*``."""

PrincipalName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9-]{0,62}$")]
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
    groups: dict[Name, tuple[GroupOperation, ...]] = Field(default_factory=dict)


def load_topics(path: Path = TOPICS_FILE) -> tuple[Topic, ...]:
    """The declared topics. Raises InvalidConfiguration naming the file and the field."""
    return tuple(_load(path, list[Topic]))


def load_acls(path: Path = ACLS_FILE) -> dict[str, Rights]:
    """Rights by principal. Raises InvalidConfiguration naming the file and the field."""
    return dict(_load(path, dict[PrincipalName, Rights]))


def _load(path: Path, shape: Any) -> Any:
    try:
        return TypeAdapter(shape).validate_python(yaml.safe_load(path.read_text()))
    except (OSError, yaml.YAMLError, ValidationError) as error:
        raise InvalidConfiguration(f"{path}: {error}") from error


def tenant_key(workspace: str, namespace: str) -> bytes:
    """The message key that keeps all that concerns a tenant in one partition."""
    return f"{workspace}/{namespace}".encode()

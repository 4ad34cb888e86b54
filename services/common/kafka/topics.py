"""The topics, as declared in ``topics.yaml``: the one place that says how many partitions there are."""

from __future__ import annotations

from pathlib import Path

import yaml
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from services.common.errors import InvalidConfiguration

DECLARATION = Path(__file__).with_name("topics.yaml")
"""Package data: what declares the topics for services, commands and tests alike."""

COMMANDS = "gitops.commands"
OBSERVATIONS = "gitops.observations"
ENGINE = "gitops.engine"
WORKSPACE = "gitops.workspace"
DEAD_LETTERS = "gitops.dead-letters"


class Topic(BaseModel):
    """One topic as it shall be."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=r"^[a-zA-Z0-9._-]{1,249}$")
    partitions: int = Field(ge=1, le=1000)
    config: dict[str, str] = Field(default_factory=dict, description="Topic settings as the broker names them.")


def load_topics(path: Path = DECLARATION) -> tuple[Topic, ...]:
    """Read the declaration. Raises InvalidConfiguration naming the file and the field."""
    try:
        return tuple(TypeAdapter(list[Topic]).validate_python(yaml.safe_load(path.read_text())))
    except (OSError, yaml.YAMLError, ValidationError) as error:
        raise InvalidConfiguration(f"{path}: {error}") from error


def tenant_key(workspace: str, namespace: str) -> bytes:
    """The message key that keeps all that concerns a tenant in one partition."""
    return f"{workspace}/{namespace}".encode()

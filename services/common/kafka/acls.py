"""Who may do what at the brokers, as declared in ``acls.yaml``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, TypeAdapter, ValidationError

from services.common.errors import InvalidConfiguration

DECLARATION = Path(__file__).with_name("acls.yaml")

Name = Annotated[str, StringConstraints(pattern=r"^[a-zA-Z0-9._-]{1,249}$")]
"""A name as it is: no pattern, no ``*``."""

PrincipalName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9-]{0,62}$")]
TopicOperation = Literal["read", "write", "create", "describe", "describe_configs"]
GroupOperation = Literal["read", "describe"]


class Rights(BaseModel):
    """What one principal may do; what is not listed it may not."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    topics: dict[Name, tuple[TopicOperation, ...]] = Field(default_factory=dict)
    groups: dict[Name, tuple[GroupOperation, ...]] = Field(default_factory=dict)


def load_acls(path: Path = DECLARATION) -> dict[str, Rights]:
    """Rights by principal. Raises InvalidConfiguration naming the file and the field."""
    try:
        return TypeAdapter(dict[PrincipalName, Rights]).validate_python(yaml.safe_load(path.read_text()))
    except (OSError, yaml.YAMLError, ValidationError) as error:
        raise InvalidConfiguration(f"{path}: {error}") from error

"""The base of all kinds' models, which are the source of the CRDs in ``k8s/crds/``."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from services.kinds.shared.text import MAX_NAME, MAX_VALUE

Rule = dict[str, Any]
"""A CEL validation rule as CRDs carry it."""


class ApiModel(BaseModel):
    """A part of a custom resource: camelCase outside, frozen, unknown fields dropped as the API server prunes them."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, frozen=True, extra="ignore")


def rule(expression: str, message: str) -> Rule:
    """A CEL validation rule that the API server checks before it stores an object."""
    return {"rule": expression, "message": message}


def cel(*rules: Rule) -> dict[str, Any]:
    """Schema extension that carries ``rules`` into the CRD."""
    return {"x-kubernetes-validations": list(rules)}


CONDITIONS = "What is right and wrong; see below. Once written, a condition stays and changes its status."


class Condition(ApiModel):
    """One condition of a resource's status."""

    type: str = Field(max_length=316, description="What the condition is about.")
    status: Literal["True", "False", "Unknown"] = Field(description="Whether it holds.")
    reason: str = Field(default="", max_length=1024, description="One word for why.")
    message: str = Field(default="", max_length=32768, description="For people.")
    last_transition_time: str | None = Field(
        default=None,
        json_schema_extra={"format": "date-time"},
        description="When status, reason or message last changed.",
    )
    last_probe_time: str | None = Field(
        default=None, json_schema_extra={"format": "date-time"}, description="When the condition was last written."
    )


class ForeignCondition(Condition):
    """One condition that another service writes: the API server keeps all that Kubernetes' own type has."""

    observed_generation: int | None = Field(default=None, description="Generation of the resource that it is about.")


class EnvironmentVariable(ApiModel):
    """An environment variable of a component."""

    name: str = Field(max_length=MAX_NAME, description="Name of the variable.")
    value: str = Field(max_length=MAX_VALUE, description="Its value; not for secrets: it is stored in clear.")

"""What all models of the API have in common."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

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

"""A spec from the JSON text that a user wrote, or what is wrong with it in one line."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, TypeVar

from pydantic import ValidationError

from services.common.api import GitOpsDeploymentSpec, ManagedEnvironmentSpec, RepositoryCredentialSpec
from services.common.api.catalogue.entry import Reason
from services.common.api.model import ApiModel
from services.common.errors import Permanent
from services.planner.kinds.bounds import MAX_REFUSAL
from services.planner.kinds.conditions import Refused
from services.planner.rows import Resource

SpecT = TypeVar("SpecT", bound=ApiModel)

_MAX_QUOTED = 80
_DROPPED = str.maketrans("", "", "\"'`&;%" + "".join(map(chr, range(0x20))) + "\x7f")


def parsed(model: type[SpecT], text: str) -> SpecT:
    """The spec in ``text``. Raises Permanent with a message for the user."""
    try:
        return model.model_validate_json(text)
    except ValidationError as error:
        raise Permanent(_explanation(error)) from None


@lru_cache(maxsize=4096)
def accepted_deployment(text: str) -> GitOpsDeploymentSpec:
    """The spec of a GitOpsDeployment in ``text``, which was accepted before. A plan asks for the same one often."""
    return GitOpsDeploymentSpec.model_validate_json(text)


@lru_cache(maxsize=4096)
def accepted_environment(text: str) -> ManagedEnvironmentSpec:
    """Likewise of a managed environment."""
    return ManagedEnvironmentSpec.model_validate_json(text)


@lru_cache(maxsize=4096)
def accepted_credential(text: str) -> RepositoryCredentialSpec:
    """Likewise of a repository credential."""
    return RepositoryCredentialSpec.model_validate_json(text)


def spec_of(model: type[SpecT], resource: Resource) -> SpecT:
    """The spec of ``resource``. Raises Refused if it was left out or does not fit the model."""
    if resource.omitted:
        raise Refused("Unknown", Reason.INVALID_SPEC, resource.omitted)
    try:
        return parsed(model, resource.spec)
    except Permanent as error:
        raise Refused("Unknown", Reason.INVALID_SPEC, str(error)) from None


def cleaned(text: str | None) -> str:
    """Without the characters that this API has always dropped from what users write, and without control characters."""
    return (text or "").translate(_DROPPED)


def _explanation(error: ValidationError) -> str:
    """Field, problem and fix of the first error; never the value, which may be anything of any size."""
    first: Any = error.errors(include_url=False, include_context=False, include_input=False)[0]
    field = ".".join(["spec", *(str(part)[:_MAX_QUOTED] for part in first["loc"])])
    if first["type"] == "missing":
        return f"{field} is missing; set it"[:MAX_REFUSAL]
    return f"{field}: {first['msg']}; correct this field"[:MAX_REFUSAL]

"""Parses specs from the JSON text that users wrote; errors are one line for users."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from pydantic import ValidationError

from services.common.errors import Permanent
from services.common.text_cache import TEXTS
from services.kinds.shared.api_model import ApiModel
from services.kinds.shared.catalogue import Reason
from services.kinds.shared.conditions import Refused
from services.kinds.shared.resource import PlainResource
from services.kinds.shared.text import MAX_REFUSAL

SpecT = TypeVar("SpecT", bound=ApiModel)
KnownT = TypeVar("KnownT")

SPEC = "spec"
"""The part of a resource that its user writes."""
_MAX_QUOTED = 80


def parsed(model: type[SpecT], text: str, part: str = SPEC) -> SpecT:
    """The spec, or another ``part`` of a resource, in ``text``. Raises Permanent with a message for the user."""
    try:
        return model.model_validate_json(text)
    except ValidationError as error:
        raise Permanent(_explanation(error, part)) from None


def spec_of(model: type[SpecT], resource: PlainResource) -> SpecT:
    """The spec of ``resource``. Raises Refused if it was left out or does not match the model."""
    if resource.omitted:
        raise Refused("Unknown", Reason.INVALID_SPEC, resource.omitted)
    try:
        return parsed(model, resource.spec)
    except Permanent as error:
        raise Refused("Unknown", Reason.INVALID_SPEC, str(error)) from None


def readable_spec(model: type[SpecT], resource: PlainResource) -> SpecT | None:
    """The newest spec of ``resource``; None if it is invalid, or exceeds the quota."""
    return projected_spec(model, _whole, resource)


def projected_spec(model: type[SpecT], project: Callable[[SpecT], KnownT], resource: PlainResource) -> KnownT | None:
    """What ``project`` makes of the newest spec, which may be long; None if it is invalid, or exceeds the quota."""
    return None if resource.omitted or resource.over_quota else _projected(model, project, resource.spec)


@TEXTS.remember
def _projected(model: type[SpecT], project: Callable[[SpecT], KnownT], text: str) -> KnownT | None:
    try:
        return project(parsed(model, text))
    except Permanent:
        return None


def _whole(spec: SpecT) -> SpecT:
    return spec


def _explanation(error: ValidationError, part: str) -> str:
    """Field and problem of the first error, and the fix if a user has one.

    Never the value: it may be secret, or long.
    """
    first: Any = error.errors(include_url=False, include_context=False, include_input=False)[0]
    field = ".".join([part, *(str(name)[:_MAX_QUOTED] for name in first["loc"])])
    is_missing = first["type"] == "missing"
    problem = f"{field} is missing" if is_missing else f"{field}: {first['msg']}"
    if part != SPEC:  # others write it
        return problem[:MAX_REFUSAL]
    return f"{problem}; {'set it' if is_missing else 'correct this field'}"[:MAX_REFUSAL]

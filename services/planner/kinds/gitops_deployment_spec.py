"""Which specs of a GitOpsDeployment are accepted, and what a user is told about the others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import ValidationError

from services.common.api import ApplicationDestination, ApplicationSource, GitOpsDeploymentSpec
from services.common.api.gitops_deployment import (
    ENVIRONMENT_MESSAGE,
    SYNC_OPTION_MESSAGE,
    SYNC_OPTIONS,
    TYPE_MESSAGE,
)
from services.common.errors import Permanent

API_VERSION = "managed-gitops.redhat.com/v1alpha1"

PATH_EMPTY = "spec.source.path is a required field and it cannot be empty"
PATH_ROOT = "spec.source.path cannot be '/'"
ENVIRONMENT_UNUSABLE_ON_CREATE = (
    "Unable to reconcile the ManagedEnvironment. Verify that the ManagedEnvironment and Secret are correctly defined, "
    "and have valid credentials"
)
ENVIRONMENT_UNUSABLE_ON_UPDATE = (
    "unable to reconcile the ManagedEnvironment resource. Ensure that the ManagedEnvironment exists, it references a "
    "Secret, and the Secret is valid"
)
PATTERN_IN_REPOSITORY = (
    "spec.source.repoURL must name one repository: it cannot begin with '!' or contain '*', '?', '[' or '{'"
)

MAX_MESSAGE = 1024
_MAX_QUOTED = 80
_DROPPED = str.maketrans("", "", "\"'`&;%" + "".join(map(chr, range(0x20))) + "\x7f")
_PATTERN = frozenset("*?[{")


def accept(api_version: str, spec: str, *, exists: bool) -> GitOpsDeploymentSpec:
    """The spec in the JSON text ``spec``, with unwanted characters removed; ``exists``: it has an Application.

    Raises Permanent with the message for the user.
    """
    if api_version != API_VERSION:
        raise Permanent(f"apiVersion '{api_version[:_MAX_QUOTED]}' is not supported; use {API_VERSION}")
    try:
        accepted = _filtered(GitOpsDeploymentSpec.model_validate_json(spec))
    except ValidationError as error:
        raise Permanent(_explanation(error)) from None
    for problem in _problems(accepted, exists=exists):
        raise Permanent(problem)
    return accepted


def normalised(repository: str) -> str:
    """The form in which an AppProject lists a repository: as Argo CD compares them."""
    url = repository.strip().lower()
    if url.startswith("git@"):
        url = url.replace(":", "/", 1)
    return url.removeprefix("ssh://").removesuffix(".git")


def _problems(spec: GitOpsDeploymentSpec, *, exists: bool) -> Iterator[str]:
    """What is wrong, the message that users have always got first."""
    environment, namespace, path = spec.destination.environment, spec.destination.namespace, spec.source.path
    if spec.type.lower() not in {"automated", "manual"}:
        yield TYPE_MESSAGE
    if namespace and not environment:
        yield ENVIRONMENT_MESSAGE
    if not path:
        yield PATH_EMPTY
    if path == "/":
        yield PATH_ROOT
    if environment:
        yield ENVIRONMENT_UNUSABLE_ON_UPDATE if exists else ENVIRONMENT_UNUSABLE_ON_CREATE
    if any(option not in SYNC_OPTIONS for option in spec.sync_options):
        yield SYNC_OPTION_MESSAGE
    # An AppProject's repositories are patterns: one from a user could allow or deny more than that repository.
    if spec.source.repo_url.startswith("!") or _PATTERN & set(spec.source.repo_url):
        yield PATTERN_IN_REPOSITORY


def _filtered(spec: GitOpsDeploymentSpec) -> GitOpsDeploymentSpec:
    source = ApplicationSource(
        repo_url=_clean(spec.source.repo_url),
        path=_clean(spec.source.path),
        target_revision=_clean(spec.source.target_revision) or None,
    )
    destination = ApplicationDestination(
        environment=_clean(spec.destination.environment) or None,
        namespace=_clean(spec.destination.namespace) or None,
    )
    return spec.model_copy(update={"source": source, "destination": destination})


def _clean(text: str | None) -> str:
    return (text or "").translate(_DROPPED)


def _explanation(error: ValidationError) -> str:
    """Field, problem and fix of the first error; never the value, which may be anything of any size."""
    first: Any = error.errors(include_url=False, include_context=False, include_input=False)[0]
    field = ".".join(["spec", *(str(part)[:_MAX_QUOTED] for part in first["loc"])])
    if first["type"] == "missing":
        return f"{field} is missing; set it"[:MAX_MESSAGE]
    return f"{field}: {first['msg']}; correct this field"[:MAX_MESSAGE]

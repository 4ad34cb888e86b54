"""Which specs of a GitOpsDeployment are accepted, and the errors of the others.

There are two steps, because an environment may change while a spec does not: ``accept`` checks the text alone,
``resolve`` the environment that it names.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator

from services.common.addresses import AddressPolicy
from services.common.errors import Permanent, Wait
from services.common.text_cache import TEXTS
from services.common.urls.repository_url import refusal
from services.common.urls.web_address import quoted
from services.kinds.gitops_deployment import catalogue as texts
from services.kinds.gitops_deployment.model import (
    SYNC_OPTIONS,
    ApplicationDestination,
    ApplicationSource,
    GitOpsDeploymentSpec,
)
from services.kinds.managed_environment.rules import EnvironmentView, Usability
from services.kinds.managed_environment.validation import is_namespace
from services.kinds.shared.api_group import API_VERSION
from services.kinds.shared.spec_text import parsed
from services.kinds.shared.text import cleaned

ENVIRONMENT_PENDING = "the environment is being checked"


def accept(api_version: str, spec: str, addresses: AddressPolicy) -> GitOpsDeploymentSpec:
    """The spec in the JSON text ``spec``, with unwanted characters removed; well-formed, but not resolved.

    Raises Permanent with the message for the user.
    """
    if api_version != API_VERSION:
        raise Permanent(f"apiVersion {quoted(api_version)} is not supported; use {API_VERSION}")
    accepted = _filtered(parsed(GitOpsDeploymentSpec, spec))
    for problem in _problems(accepted, addresses):
        raise Permanent(problem)
    return accepted


@TEXTS.remember
def accepted_deployment(text: str) -> GitOpsDeploymentSpec:
    """The accepted spec in ``text``, cached, because plans read the same spec often."""
    return GitOpsDeploymentSpec.model_validate_json(text)


def resolve(spec: GitOpsDeploymentSpec, view: EnvironmentView | None, *, exists: bool) -> EnvironmentView | None:
    """The environment that an accepted ``spec`` goes to; None: its own namespace of the local cluster.

    Args:
        spec: as ``accept`` returned it.
        view: the environment of its tenant that has the name in it; None: there is none.
        exists: it is on an engine.

    Raises Permanent with the message for the user, Wait while the environment has not been checked.
    """
    if not spec.destination.environment:
        return None
    if view is None or view.usability is Usability.UNUSABLE:
        entry = texts.ENVIRONMENT_UNUSABLE_ON_UPDATE if exists else texts.ENVIRONMENT_UNUSABLE_ON_CREATE
        raise Permanent(entry.message)
    for problem in _destination_problems(spec, view, exists=exists):
        raise Permanent(problem)
    if view.usability is Usability.PENDING:
        raise Wait(ENVIRONMENT_PENDING)
    return view


def _problems(spec: GitOpsDeploymentSpec, addresses: AddressPolicy) -> Iterator[str]:
    """The problems of a spec. The first is the one that users have always got first."""
    environment, namespace, path = spec.destination.environment, spec.destination.namespace, spec.source.path
    if spec.type.lower() not in {"automated", "manual"}:
        yield texts.TYPE_UNKNOWN.message
    if namespace and not environment:
        yield texts.NAMESPACE_WITHOUT_ENVIRONMENT.message
    if not path:
        yield texts.PATH_EMPTY.message
    if path == "/":
        yield texts.PATH_ROOT.message
    if not environment:
        yield from _option_problems(spec)
    yield from _source_problems(spec.source, addresses)


def _source_problems(source: ApplicationSource, addresses: AddressPolicy) -> Iterator[str]:
    """Problems of a path.

    An engine may refuse one outside of the repository, or mistake ``../<name>-other`` for inside.
    """
    inside = posixpath.normpath(source.path)
    if source.path.startswith("/") or "\\" in source.path or inside == ".." or inside.startswith("../"):
        yield texts.PATH_OUTSIDE.message
    if (source.target_revision or "").startswith("-"):
        yield texts.REVISION_REFUSED.message
    if problem := refusal(source.repo_url, addresses, with_credentials=False):
        yield texts.REPOSITORY_REFUSED.text(problem=problem)


def _destination_problems(spec: GitOpsDeploymentSpec, view: EnvironmentView, *, exists: bool) -> Iterator[str]:
    namespace = spec.destination.namespace or ""
    if not is_namespace(namespace):
        entry = texts.NAMESPACE_INVALID_ON_UPDATE if exists else texts.NAMESPACE_INVALID_ON_CREATE
        yield entry.message
    yield from _option_problems(spec)
    if view.namespaces and namespace not in view.namespaces:
        yield texts.NAMESPACE_NOT_LISTED.text(namespace=namespace, environment=view.name)


def _option_problems(spec: GitOpsDeploymentSpec) -> Iterator[str]:
    if any(option not in SYNC_OPTIONS for option in spec.sync_options):
        yield texts.OPTION_UNKNOWN.message


def _filtered(spec: GitOpsDeploymentSpec) -> GitOpsDeploymentSpec:
    source = ApplicationSource(
        repo_url=cleaned(spec.source.repo_url),
        path=cleaned(spec.source.path),
        target_revision=cleaned(spec.source.target_revision) or None,
    )
    destination = ApplicationDestination(
        environment=cleaned(spec.destination.environment) or None,
        namespace=cleaned(spec.destination.namespace) or None,
    )
    return spec.model_copy(update={"source": source, "destination": destination})

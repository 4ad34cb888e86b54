"""The state of an Application: its environments, what is deployed in each, and the promotions that are open.

A pure function of resources as the API server has them. They may be of any age and anybody's, so what does not fit its
model is a problem that is shown, and no error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from services.cli.describe.views import (
    ApplicationView,
    BindingView,
    ClaimView,
    ComponentView,
    EnvironmentView,
    PromotionView,
    StepView,
)
from services.common.errors import Permanent
from services.common.json_values import canonical, dict_of, text_at
from services.kinds.deployment_target_claim.model import DeploymentTargetClaimSpec, DeploymentTargetClaimStatus
from services.kinds.environment.model import EnvironmentSpec, EnvironmentStatus
from services.kinds.environment.rules import cycle_problem, missing_parent_problem, parent_cycles
from services.kinds.promotion_run.model import PromotionRunSpec, PromotionRunStatus
from services.kinds.promotion_run.rules import Contender, runs_ahead
from services.kinds.shared.api_model import Condition
from services.kinds.shared.catalogue import ERROR
from services.kinds.shared.spec_text import SpecT, parsed
from services.kinds.snapshot_environment_binding.catalogue import DEPLOYED
from services.kinds.snapshot_environment_binding.model import BindingSpec, BindingStatus, BoundDeployment

Manifest = Mapping[str, Any]

COMPLETE = "Complete"
"""State of a run that is over."""
NO_ENVIRONMENT = "Environment '{name}' does not exist; create it"
NO_CLAIM = "DeploymentTargetClaim '{claim}' does not exist; create it"


@dataclass(frozen=True, slots=True)
class Listed:
    """Resources of one namespace; those of other applications are passed over."""

    environments: Sequence[Manifest] = ()
    bindings: Sequence[Manifest] = ()
    runs: Sequence[Manifest] = ()
    claims: Sequence[Manifest] = ()


def application_view(name: str, namespace: str, listed: Listed) -> ApplicationView:
    """The state of the Application ``name``."""
    bindings = _bindings(each for each in listed.bindings if is_of_application(name, each))
    return ApplicationView(
        name=name,
        namespace=namespace,
        environments=_environments(listed, bindings),
        promotions=_promotions([each for each in listed.runs if is_open_run(name, each)]),
    )


def is_of_application(application: str, manifest: Manifest) -> bool:
    """Whether a binding or a run is one of ``application``."""
    return text_at(manifest, "spec.application") == application


def is_open_run(application: str, manifest: Manifest) -> bool:
    """Whether a PromotionRun is one of ``application`` and is not over."""
    return is_of_application(application, manifest) and text_at(manifest, "status.state") != COMPLETE


def in_order_of_promotion(parents: Mapping[str, str]) -> list[str]:
    """Names of environments, level by level from those without a parent; then those that no such one leads to.

    ``parents`` has the parent of each, empty if it names none. One that does not exist is none.
    """
    children: dict[str, list[str]] = {}
    for name, parent in parents.items():
        children.setdefault(parent if parent in parents else "", []).append(name)
    ordered: list[str] = []
    level = sorted(children.get("", ()))
    while level:
        ordered += level
        level = sorted(child for name in level for child in children.get(name, ()))
    return ordered + sorted(parents.keys() - set(ordered))


def _environments(listed: Listed, bindings: Mapping[str, tuple[BindingView, ...]]) -> tuple[EnvironmentView, ...]:
    """The environments that exist, and then those that only bindings name."""
    found = {_name(each): each for each in listed.environments}
    claims = {_name(each): _claim(each) for each in listed.claims}
    parents = {name: text_at(each, "spec.parentEnvironment") for name, each in found.items()}
    cycles = parent_cycles({name: parent for name, parent in parents.items() if parent})
    views: list[EnvironmentView] = []
    for name in in_order_of_promotion(parents):
        graph_problem = _graph_problem(parents[name], parents, cycles.get(name, ()))
        views.append(_environment(found[name], graph_problem, claims, bindings.get(name, ())))
    missing = sorted(bindings.keys() - found.keys())
    return (*views, *(_missing_environment(name, bindings[name]) for name in missing))


def _environment(
    manifest: Manifest, graph_problem: str, claims: Mapping[str, ClaimView], bindings: tuple[BindingView, ...]
) -> EnvironmentView:
    spec, refusal = _read(EnvironmentSpec, manifest, "spec")
    status, unreadable = _read(EnvironmentStatus, manifest, "status")
    claim = spec.claim_name if spec is not None else ""
    problems = (refusal, unreadable, _error(status.conditions if status is not None else None), graph_problem)
    return EnvironmentView(
        name=_name(manifest),
        strategy=spec.deployment_strategy if spec is not None else "",
        parent=text_at(manifest, "spec.parentEnvironment"),
        problems=tuple(dict.fromkeys(filter(None, problems))),
        claim=claims.get(claim, ClaimView(name=claim, problem=NO_CLAIM.format(claim=claim))) if claim else None,
        bindings=bindings,
    )


def _missing_environment(name: str, bindings: tuple[BindingView, ...]) -> EnvironmentView:
    return EnvironmentView(name=name, problems=(NO_ENVIRONMENT.format(name=name),), bindings=bindings)


def _graph_problem(parent: str, parents: Mapping[str, str], cycle: tuple[str, ...]) -> str:
    """What is wrong with an environment's place among the others, whether or not its status says so yet."""
    if cycle:
        return cycle_problem(cycle).message
    return missing_parent_problem(parent).message if parent and parent not in parents else ""


def _claim(manifest: Manifest) -> ClaimView:
    spec, refusal = _read(DeploymentTargetClaimSpec, manifest, "spec")
    status, unreadable = _read(DeploymentTargetClaimStatus, manifest, "status")
    return ClaimView(
        name=_name(manifest),
        phase=(status.phase if status is not None else None) or "",
        target=(spec.target_name if spec is not None else None) or "",
        problem=refusal or unreadable or _error(status.conditions if status is not None else None),
    )


def _bindings(manifests: Iterable[Manifest]) -> dict[str, tuple[BindingView, ...]]:
    """Bindings by environment, the oldest first: that one is in force."""
    found: dict[str, list[BindingView]] = {}
    for each in sorted(manifests, key=_by_age):
        found.setdefault(text_at(each, "spec.environment"), []).append(_binding(each))
    return {environment: tuple(views) for environment, views in found.items()}


def _binding(manifest: Manifest) -> BindingView:
    spec, refusal = _read(BindingSpec, manifest, "spec")
    status, unreadable = _read(BindingStatus, manifest, "status")
    shown = status or BindingStatus()
    return BindingView(
        name=_name(manifest),
        snapshot=text_at(manifest, "spec.snapshot"),
        deployed=_message(shown.component_deployment_conditions, DEPLOYED),
        problem=refusal or unreadable or _error(shown.binding_conditions),
        components=_components(spec, shown),
    )


def _components(spec: BindingSpec | None, status: BindingStatus) -> tuple[ComponentView, ...]:
    """The components that the spec names, in its order, and then others that are still deployed."""
    deployments = {each.component_name: each for each in status.git_ops_deployments or ()}
    commits = {each.name: each.git_ops_repository.commit_id for each in status.components or ()}
    wanted = [each.name for each in spec.components] if spec is not None else []
    return tuple(
        _component(name, deployments.get(name), commits.get(name, ""))
        for name in dict.fromkeys((*wanted, *sorted(deployments)))
    )


def _component(name: str, deployment: BoundDeployment | None, wanted_commit: str) -> ComponentView:
    if deployment is None:
        return ComponentView(name=name, wanted_commit=wanted_commit)
    return ComponentView(
        name=name,
        deployment=deployment.git_ops_deployment,
        sync=deployment.sync_status,
        health=deployment.health,
        commit=deployment.commit_id,
        wanted_commit=wanted_commit,
    )


def _promotions(manifests: Iterable[Manifest]) -> tuple[PromotionView, ...]:
    """The promotions, the oldest first. Whose turn it is follows from their ages: a new run's status may lack it."""
    ordered = sorted(manifests, key=_by_age)
    views = [_promotion(each) for each in ordered]
    contenders = [
        Contender(UUID(int=number), view.name, "", _created_at(each), view.state == "Active")
        for number, (each, view) in enumerate(zip(ordered, views, strict=True))
        if view.state or not view.problem  # one that was refused has no turn
    ]
    behind = runs_ahead(contenders)
    return tuple(
        view.model_copy(update={"behind": behind.get(UUID(int=number), "")}) for number, view in enumerate(views)
    )


def _promotion(manifest: Manifest) -> PromotionView:
    spec, refusal = _read(PromotionRunSpec, manifest, "spec")
    status, unreadable = _read(PromotionRunStatus, manifest, "status")
    shown = status or PromotionRunStatus()
    return PromotionView(
        name=_name(manifest),
        snapshot=text_at(manifest, "spec.snapshot"),
        environment=(spec.target_environment or spec.initial_environment) if spec is not None else "",
        automated=bool(spec.initial_environment) if spec is not None else False,
        state=shown.state or "",
        problem=refusal or unreadable or _error(shown.conditions),
        steps=tuple(
            StepView(environment=each.environment_name, status=each.status, display=each.display_status)
            for each in shown.environment_status or ()
        ),
    )


def _read(model: type[SpecT], manifest: Manifest, part: str) -> tuple[SpecT | None, str]:
    """The spec or the status of a resource; None, and why, if it does not fit its model."""
    try:
        return parsed(model, canonical(dict_of(manifest.get(part))), part), ""
    except Permanent as error:
        return None, str(error)


def _error(conditions: Sequence[Condition] | None) -> str:
    """What a status says is wrong; empty if nothing is."""
    return next((each.message or each.reason for each in conditions or () if _is_error(each)), "")


def _is_error(condition: Condition) -> bool:
    return (condition.type, condition.status) == (ERROR, "True")


def _message(conditions: Sequence[Condition] | None, type_: str) -> str:
    return next((each.message for each in conditions or () if each.type == type_), "")


def _name(manifest: Manifest) -> str:
    return text_at(manifest, "metadata.name")


def _by_age(manifest: Manifest) -> tuple[int, str]:
    """As the service orders resources."""
    return _created_at(manifest), _name(manifest)


def _created_at(manifest: Manifest) -> int:
    """Milliseconds since 1970."""
    return round(datetime.fromisoformat(text_at(manifest, "metadata.creationTimestamp")).timestamp() * 1000)

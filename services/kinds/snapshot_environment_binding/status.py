"""Our part of a SnapshotEnvironmentBinding's status: its deployments, and its problems.

The build service writes the rest; a patch of our members does not touch that.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from services.common.errors import Permanent
from services.common.json_values import canonical, dicts_of
from services.kinds.shared.child_objects import ChildDeployment
from services.kinds.shared.conditions import (
    ConditionState,
    ConditionStates,
    Json,
    parsed_status,
    recurring_states,
    throttling,
    with_probe_time,
    with_states,
)
from services.kinds.shared.kind import StatusInputs
from services.kinds.shared.reconciled import Problem, pair_without_problem
from services.kinds.shared.resource import PlainResource
from services.kinds.shared.spec_text import parsed
from services.kinds.snapshot_environment_binding import catalogue as texts
from services.kinds.snapshot_environment_binding.model import BindingSpec
from services.kinds.snapshot_environment_binding.rules import COMPONENT_LABEL

SYNCED = "Synced"
DEPLOYMENTS = "gitopsDeployments"
BINDING_CONDITIONS, DEPLOYMENT_CONDITIONS = "bindingConditions", "componentDeploymentConditions"
OWN_MEMBERS = frozenset({DEPLOYMENTS, BINDING_CONDITIONS, DEPLOYMENT_CONDITIONS})


def binding_status(inputs: StatusInputs) -> str:
    """Canonical JSON of our members; ``previous`` if nothing has changed."""
    before, at = parsed_status(inputs.previous), inputs.at
    deployments = [_shown(each) for each in sorted(inputs.deployments, key=_component)]
    components = {*_components(inputs.resource), *map(_component, inputs.deployments)}
    binding = with_states(_listed(before), _binding_states(inputs.resource, before), at)
    deployed = with_states(
        dicts_of(before.get(DEPLOYMENT_CONDITIONS)), _deployed_state(inputs.deployments, components), at
    )
    status = {DEPLOYMENTS: deployments, BINDING_CONDITIONS: binding, DEPLOYMENT_CONDITIONS: deployed}
    if status == before:
        return inputs.previous
    probed = {name: with_probe_time(status[name], at) for name in (BINDING_CONDITIONS, DEPLOYMENT_CONDITIONS)}
    return canonical(status | probed)


def _shown(deployment: ChildDeployment) -> Json:
    state = deployment.state
    shown = {"syncStatus": state.sync, "health": state.health, "commitID": state.revision}
    known = {"componentName": _component(deployment), "gitopsDeployment": deployment.name}
    return known | {key: text for key, text in shown.items() if text}


def _component(deployment: ChildDeployment) -> str:
    return deployment.labels[COMPONENT_LABEL]


def _components(resource: PlainResource) -> Collection[str]:
    """Names of the components to deploy; none if the spec is invalid."""
    try:
        return [each.name for each in parsed(BindingSpec, resource.spec).components]
    except Permanent:
        return ()


def _binding_states(resource: PlainResource, before: Json) -> dict[str, ConditionState]:
    throttled = recurring_states(throttling(resource.held_back_ms), {"conditions": _listed(before)})
    problem = Problem.shown_by(resource)
    if problem is not None:
        return problem.pair | throttled
    return {**pair_without_problem(_listed(before)), texts.IS_RECONCILED.type: texts.IS_RECONCILED.state, **throttled}


def _deployed_state(deployments: Sequence[ChildDeployment], components: Collection[str]) -> ConditionStates:
    synced = sum(each.state.sync == SYNCED for each in deployments)
    entry = texts.COMMITS_SYNCED if synced == len(components) else texts.COMMITS_UNSYNCED
    return {entry.type: (entry.status, entry.reason, entry.text(synced=synced, all=len(components)))}


def _listed(before: Json) -> list[Json]:
    return dicts_of(before.get(BINDING_CONDITIONS))

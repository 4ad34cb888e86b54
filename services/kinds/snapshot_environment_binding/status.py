"""The part of a SnapshotEnvironmentBinding's status that is ours: its deployments, and what is right and wrong.

The build service writes the rest; a patch of our members leaves it alone.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime

from services.common.json_values import canonical, dicts_of, text_of
from services.kinds.shared.conditions import (
    ActiveConditions,
    ConditionStates,
    Json,
    parsed_status,
    recurring_states,
    with_probe_time,
    with_states,
)
from services.kinds.shared.reconciled import pair_without_problem
from services.kinds.snapshot_environment_binding import catalogue as texts
from services.kinds.snapshot_environment_binding.rules import Decision

SYNCED = "Synced"
BINDING_CONDITIONS, DEPLOYMENT_CONDITIONS = "bindingConditions", "componentDeploymentConditions"


@dataclass(frozen=True, slots=True)
class DeploymentState:
    """How a GitOpsDeployment is, as its own status says it."""

    sync: str = ""
    health: str = ""
    revision: str = ""


def binding_status(
    previous: str,
    decision: Decision,
    components: Collection[str],
    states: Mapping[str, DeploymentState],
    throttled: ActiveConditions,
    at: datetime,
) -> str:
    """Canonical JSON of our members; ``previous`` if nothing has changed.

    Args:
        previous: those compiled last, canonical JSON.
        decision: what follows from the binding.
        components: names of all that it shall deploy.
        states: the GitOpsDeployments of the namespace, by name.
        throttled: whether its newest change was held back.
        at: time of the event that may change it.
    """
    before = parsed_status(previous)
    deployments = [_deployment(component, name, states) for component, name in _bound(decision, before)]
    own = _binding_states(decision, before) | recurring_states(throttled, {"conditions": _listed(before)})
    binding = with_states(_listed(before), own, at)
    deployed = with_states(before.get(DEPLOYMENT_CONDITIONS, ()), _deployed_state(deployments, components), at)
    status = {"gitopsDeployments": deployments, BINDING_CONDITIONS: binding, DEPLOYMENT_CONDITIONS: deployed}
    if status == before:
        return previous
    probed = {name: with_probe_time(status[name], at) for name in (BINDING_CONDITIONS, DEPLOYMENT_CONDITIONS)}
    return canonical(status | probed)


def _bound(decision: Decision, before: Json) -> list[tuple[str, str]]:
    """Components and names of their deployments, sorted: while nothing is decided those that are there already."""
    if decision.deployments is not None:
        return sorted((component, child.name) for component, child in decision.deployments.items())
    known = dicts_of(before.get("gitopsDeployments"))
    return [(text_of(each.get("componentName")), text_of(each.get("gitopsDeployment"))) for each in known]


def _deployment(component: str, name: str, states: Mapping[str, DeploymentState]) -> Json:
    state = states.get(name, DeploymentState())
    shown = {"syncStatus": state.sync, "health": state.health, "commitID": state.revision}
    return {"componentName": component, "gitopsDeployment": name} | {key: text for key, text in shown.items() if text}


def _binding_states(decision: Decision, before: Json) -> dict[str, tuple[str, str, str]]:
    if decision.problem is not None:
        return decision.problem.pair
    return {**pair_without_problem(_listed(before)), texts.IS_RECONCILED.type: texts.IS_RECONCILED.state}


def _deployed_state(deployments: list[Json], components: Collection[str]) -> ConditionStates:
    everything = {*components, *(each["componentName"] for each in deployments)}
    synced = sum(each.get("syncStatus") == SYNCED for each in deployments)
    entry = texts.COMMITS_SYNCED if synced == len(everything) else texts.COMMITS_UNSYNCED
    return {entry.type: (entry.status, entry.reason, entry.text(synced=synced, all=len(everything)))}


def _listed(before: Json) -> list[Json]:
    return dicts_of(before.get(BINDING_CONDITIONS))

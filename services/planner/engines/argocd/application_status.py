"""An Application's status, as the status of a GitOpsDeployment shows it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from services.common.argocd_names import LOCAL_CLUSTER
from services.common.json_values import canonical, dict_of, dicts_of, text_at, text_of
from services.kinds.gitops_deployment.catalogue import SYNC_FAILED
from services.kinds.gitops_deployment.status import EngineReport
from services.kinds.shared.conditions import Json, parsed_status
from services.kinds.shared.text import engine_words, readable
from services.planner.engines.argocd.names import id_of
from services.planner.engines.argocd.repository_access import is_closed
from services.planner.engines.argocd.sync_error import sync_error

OPERATION = "operationState"
_ENDED = frozenset({"Succeeded", "Failed", "Error"})


def with_last_operation(status: str, before: str) -> str:
    """``status`` with the operation that ``before`` tells of, if it tells of none itself.

    Argo CD forgets an operation when the next one is asked for, and knows none of an Application that it was given in
    sync. One that had not ended is left out: nobody will tell how it ends.
    """
    engine = parsed_status(status)
    if not engine or OPERATION in engine:
        return status
    last = parsed_status(before)
    is_kept = text_at(last, f"{OPERATION}.phase") in _ENDED
    return canonical(engine | {OPERATION: last[OPERATION]}) if is_kept else status


def is_syncing(status: str) -> bool:
    """Whether an operation is at work. One that waits for its next attempt runs, too, and has a finish all the same."""
    operation = dict_of(parsed_status(status).get(OPERATION))
    return operation.get("phase") == "Running" and not operation.get("finishedAt")


def read_application_status(status: str, shown: str | None, environments: Mapping[UUID, str]) -> EngineReport:
    """What ``status`` says; ``shown`` is the message of the condition that says why a sync failed, if it holds now."""
    if not status and shown is None:
        return EngineReport()
    engine = parsed_status(status)
    error = sync_error(dict_of(engine.get(OPERATION)), shown)
    failed = {} if error is None else {SYNC_FAILED.type: (SYNC_FAILED.reason, error)}
    needs_login = any(is_closed(condition) for condition in dicts_of(engine.get("conditions")))
    return EngineReport(_part(engine, environments), failed | _conditions(engine), needs_login)


def _conditions(engine: Json) -> dict[str, tuple[str, str]]:
    """The engine may repeat a type; a CR's conditions have each type once."""
    messages: dict[str, list[str]] = {}
    for condition in dicts_of(engine.get("conditions")):
        if type_ := _text(condition.get("type")):
            messages.setdefault(type_, []).append(engine_words(text_of(condition.get("message"))))
    return {type_: (type_, "; ".join(dict.fromkeys(texts))) for type_, texts in messages.items()}


def _part(engine: Json, environments: Mapping[UUID, str]) -> Json:
    sync, health = dict_of(engine.get("sync")), dict_of(engine.get("health"))
    part = {
        "sync": _texts(sync, ("status", "revision")),
        "health": _texts(health, ("status", "message")),
        "resources": [_resource(item) for item in dicts_of(engine.get("resources"))],
        OPERATION: _operation_state(dict_of(engine.get(OPERATION))),
        "reconciledState": _reconciled(dict_of(sync.get("comparedTo")), environments),
    }
    return {name: value for name, value in part.items() if value}


def _operation_state(state: Json) -> Json:
    """Shown whole, whatever Argo CD puts into it."""
    shown = {name: _readable(value) for name, value in state.items()}
    return shown | ({"message": engine_words(text_of(shown["message"]))} if "message" in shown else {})


def _resource(resource: Json) -> Json:
    health = _texts(dict_of(resource.get("health")), ("status", "message"))
    names = ("group", "version", "kind", "namespace", "name", "status")
    return _texts(resource, names) | ({"health": health} if health else {})


def _reconciled(compared_to: Json, environments: Mapping[UUID, str]) -> Json:
    source, destination = dict_of(compared_to.get("source")), dict_of(compared_to.get("destination"))
    if not source:
        return {}
    return {
        "source": {
            "path": _text(source.get("path")),
            "repoURL": _text(source.get("repoURL")),
            "branch": _text(source.get("targetRevision")),
        },
        "destination": {
            "name": _environment(_text(destination.get("name")), environments),
            "namespace": _text(destination.get("namespace")),
        },
    }


def _environment(cluster: str, environments: Mapping[UUID, str]) -> str:
    """As its tenant calls it; empty: the engine's own cluster."""
    if cluster == LOCAL_CLUSTER:
        return ""
    environment = id_of(cluster)
    return environments.get(environment, cluster) if environment is not None else cluster


def _texts(value: Json, names: tuple[str, ...]) -> Json:
    return {name: text for name in names if (text := _text(value.get(name)))}


def _readable(value: Any) -> Any:
    match value:
        case str():
            return readable(value)
        case dict():
            return {name: _readable(part) for name, part in value.items()}
        case list():
            return [_readable(part) for part in value]
        case _:
            return value


def _text(value: Any) -> str:
    return readable(text_of(value))

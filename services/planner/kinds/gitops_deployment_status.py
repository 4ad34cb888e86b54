"""The status of a GitOpsDeployment: what its Application's engine reports, and what went wrong on the way there."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import orjson

from services.common.api.catalogue.deployment import IS_DELETING, REPOSITORY_REFUSED, SYNC_FAILED
from services.common.api.catalogue.entry import DELETING, ERROR, UNKNOWN_ERROR
from services.common.argocd_names import LOCAL_CLUSTER
from services.common.json_values import dict_of, dicts_of, text_of
from services.planner.canonical import canonical
from services.planner.kinds.conditions import Json, merged, parsed_status, probed, throttling
from services.planner.kinds.sync_error import sync_error
from services.planner.kinds.wording import engine_words, readable
from services.planner.rows import Deployment, Observed

DELETION_NOTICE = timedelta(seconds=5)
"""A deletion that takes no longer than this is not worth a status."""

MAX_STATUS = 512 * 1024
"""Bytes; an object of etcd is limited to 1.5 MiB, a message to 4."""


def compiled(
    deployment: Deployment,
    observed: Observed | None,
    previous: str,
    at: datetime,
    environments: Mapping[str, str] | None = None,
) -> str:
    """Canonical JSON of the whole status; equal to ``previous`` if nothing but a probe time would differ.

    Args:
        deployment: whose CR it is.
        observed: what agents reported of its Application.
        previous: the status compiled last for this incarnation, ``"{}"`` if none was.
        at: when that happened which may change it.
        environments: names of the tenant's environments by the name of their cluster secret.
    """
    engine = parsed_status(observed.status if observed else "")
    before = parsed_status(previous)
    holding = (
        _sync_error(engine, before) | _engine_conditions(engine) | _own_conditions(deployment, observed, before, at)
    )
    conditions = merged(before.get("conditions", ()), holding, at)
    status = _bounded(_engine_part(engine, environments or {})) | ({"conditions": conditions} if conditions else {})
    if status == before:
        return previous
    return canonical(status | ({"conditions": probed(conditions, at)} if conditions else {}))


def _own_conditions(
    deployment: Deployment, observed: Observed | None, before: Json, at: datetime
) -> dict[str, tuple[str, str]]:
    error = deployment.problem or failure(deployment, observed)
    errors = {ERROR: (ERROR, error)} if error else {}
    throttled = throttling(deployment.held_back_ms)
    waits = deployment.present and deployment.deleting and deployment.spec is not None
    overdue = at - deployment.seen_at >= DELETION_NOTICE or _holds(DELETING, before)
    return {
        **errors,
        **throttled,
        **({DELETING: (IS_DELETING.reason, IS_DELETING.message)} if waits and overdue else {}),
    }


def _holds(type_: str, before: Json) -> bool:
    return any(_is_held(type_, known) for known in before.get("conditions", ()))


def _is_held(type_: str, known: Json) -> bool:
    return (known["type"], known["status"]) == (type_, "True")


def failure(deployment: Deployment, observed: Observed | None) -> str:
    """Why the engine does not hold the manifest that is desired now; empty if nothing is known against it."""
    current = observed is not None and deployment.digest is not None and observed.failed_digest == deployment.digest
    if not current or observed is None or not observed.failure:
        return ""
    # The engine's own words are for operators, in the audit and the log: they tell of a fleet that users never see.
    # An agent's are for users where it judges what they wrote.
    return (
        observed.failure if observed.failure.startswith(REPOSITORY_REFUSED.text(problem="")) else UNKNOWN_ERROR.message
    )


def _engine_conditions(engine: Json) -> dict[str, tuple[str, str]]:
    """The engine may repeat a type; a CR's conditions have each type once."""
    messages: dict[str, list[str]] = {}
    for condition in dicts_of(engine.get("conditions")):
        if type_ := _text(condition.get("type")):
            messages.setdefault(type_, []).append(engine_words(text_of(condition.get("message"))))
    return {type_: (type_, "; ".join(dict.fromkeys(texts))) for type_, texts in messages.items()}


def _sync_error(engine: Json, before: Json) -> dict[str, tuple[str, str]]:
    held = next((known["message"] for known in before.get("conditions", ()) if _is_held(SYNC_FAILED.type, known)), None)
    error = sync_error(dict_of(engine.get("operationState")), held)
    return {} if error is None else {SYNC_FAILED.type: (SYNC_FAILED.reason, error)}


def _engine_part(engine: Json, environments: Mapping[str, str]) -> Json:
    sync, health = dict_of(engine.get("sync")), dict_of(engine.get("health"))
    part = {
        "sync": _texts(sync, ("status", "revision")),
        "health": _texts(health, ("status", "message")),
        "resources": [_resource(item) for item in dicts_of(engine.get("resources"))],
        "operationState": _operation_state(dict_of(engine.get("operationState"))),
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


def _reconciled(compared_to: Json, environments: Mapping[str, str]) -> Json:
    source, destination = dict_of(compared_to.get("source")), dict_of(compared_to.get("destination"))
    if not source:
        return {}
    cluster = _text(destination.get("name"))
    return {
        "source": {
            "path": _text(source.get("path")),
            "repoURL": _text(source.get("repoURL")),
            "branch": _text(source.get("targetRevision")),
        },
        "destination": {
            "name": "" if cluster == LOCAL_CLUSTER else environments.get(cluster, cluster),
            "namespace": _text(destination.get("namespace")),
        },
    }


def _bounded(part: Json) -> Json:
    """Without its longest parts if it is too long: the resources first, they are the ones without a bound."""
    for dropped in ("resources", "operationState"):
        if len(orjson.dumps(part)) <= MAX_STATUS:
            break
        part = {name: value for name, value in part.items() if name != dropped}
    return part


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

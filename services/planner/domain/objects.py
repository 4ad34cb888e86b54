"""What a tenant has on its engine besides its deployments, and what it shall have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from uuid import UUID

from services.kinds.managed_environment.model import MANAGED_ENVIRONMENT
from services.kinds.shared.rows import Resource
from services.planner.domain.planned import Planned
from services.planner.engines.interface import Engine, Manifest
from services.planner.rows import HeldObject, ObjectKey, Role


def made_for(known: Resource, engine: Engine) -> ObjectKey:
    """Key of the object by which an environment or a credential is known to the engine."""
    if known.kind == MANAGED_ENVIRONMENT.kind:
        return engine.environment_key(known.id)
    return engine.credential_key(known.id)


def want(planned: Planned, manifests: Iterable[Manifest], role: Role, owner: UUID | None = None) -> Planned:
    """The same with these objects wanted, except those that exceed 1 MiB."""
    held = planned.state.objects
    news: dict[ObjectKey, HeldObject] = {}
    made: dict[ObjectKey, Manifest] = {}
    for manifest in manifests:
        if manifest.is_oversized:
            planned = planned._replace(oversized=(*planned.oversized, manifest.key))
        elif held.get(manifest.key) != (wanted := HeldObject(True, manifest.digest, manifest.size, role, owner)):
            news[manifest.key], made[manifest.key] = wanted, manifest
    if not news:
        return planned
    return planned._replace(state=planned.state.with_objects(news), manifests={**planned.manifests, **made})


def release(planned: Planned, keys: Iterable[ObjectKey], departing: Mapping[ObjectKey, Manifest]) -> Planned:
    """The same with these objects marked absent, with a replacement manifest where one is given."""
    held = {key: planned.state.objects[key] for key in keys if planned.state.objects[key].wanted}
    said = {key: departing[key] for key in held if key in departing}
    gone = {
        key: HeldObject(False, said[key].digest, said[key].size, each.role, each.owner)
        if key in said
        else replace(each, wanted=False)
        for key, each in held.items()
    }
    if not gone:
        return planned
    state = planned.state.with_objects(gone)
    return planned._replace(state=state, manifests={**planned.manifests, **said})

"""A tenant's environments as its deployments see them, and where those may go because of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from uuid import UUID

from services.kinds.managed_environment.model import MANAGED_ENVIRONMENT, ManagedEnvironmentSpec
from services.kinds.managed_environment.rules import EnvironmentView, is_usable
from services.kinds.managed_environment.validation import accepted_environment
from services.kinds.shared.lifecycle import refusal_of
from services.kinds.shared.rows import Check, Resource
from services.planner.domain.state import TenantState
from services.planner.engines.interface import Destination, Engine
from services.planner.rows import EngineObject


@dataclass(frozen=True, slots=True)
class Environments:
    """What deployments must know. A name is only what a spec says: what has been resolved is bound to an identity."""

    by_name: Mapping[str, EnvironmentView]
    """Those that exist."""
    by_id: Mapping[UUID, EnvironmentView]
    """These, and each that is gone, for as long as its engine holds it: what was deployed there may be on its way out
    too, and needs its cluster for that."""

    @classmethod
    def of(cls, state: TenantState, engine: Engine) -> Environments:
        """Of a tenant."""
        known = state.of_kind(MANAGED_ENVIRONMENT.kind)
        held = [each for each in known if each.wanted or engine.environment_key(each.id) in state.objects]
        views = {each.id: _view(state, each, engine) for each in held}
        return cls({each.name: views[each.id] for each in known if each.wanted}, views)


def look_the_same(now: TenantState, before: TenantState, engine: Engine) -> bool:
    """Whether nothing that environments follow from has changed: to compare rows costs less than to parse them."""
    if now.resources is before.resources and now.objects is before.objects and now.checks is before.checks:
        return True
    return _rows(now, engine) == _rows(before, engine)


def _rows(state: TenantState, engine: Engine) -> list[tuple[Resource, Check | None, EngineObject | None]]:
    return [
        (each, state.checks.get(each.id), state.objects.get(engine.environment_key(each.id)))
        for each in state.resources.values()
        if each.kind == MANAGED_ENVIRONMENT.kind
    ]


def in_force(environment: Resource, check: Check | None) -> Iterator[ManagedEnvironmentSpec]:
    """The specs by which an engine may hold it: the accepted one, and that with which credentials last worked."""
    for text in {environment.accepted, check.worked if check else ""}:
        spec = _parsed(text)
        if spec is not None:
            yield spec


def destinations(state: TenantState, engine: Engine) -> tuple[Destination, ...]:
    """Where the tenant's deployments may go besides its own namespace.

    An environment counts as it is held: by the spec that its object was compiled from, and by the one with which its
    credentials last worked, as long as an engine may still have that. One that is gone counts until its object is:
    what is being deleted there needs the right to be.
    """
    held = [
        (each, list(in_force(each, state.checks.get(each.id))))
        for each in state.of_kind(MANAGED_ENVIRONMENT.kind)
        if engine.environment_key(each.id) in state.objects
    ]
    return tuple(
        Destination(environment.id, _namespaces(chosen), privileged)
        for environment, specs in held
        for privileged in (False, True)
        if (chosen := [spec for spec in specs if spec.cluster_resources == privileged])
    )


def allows_cluster_resources(state: TenantState, engine: Engine) -> bool:
    """Whether any destination allows resources outside of namespaces."""
    return any(each.cluster_resources for each in destinations(state, engine))


def _view(state: TenantState, environment: Resource, engine: Engine) -> EnvironmentView:
    check = state.checks.get(environment.id)
    worked, compiled = _parsed(check.worked if check else ""), _parsed(environment.accepted)
    same = worked is not None and compiled is not None and worked.api_url == compiled.api_url
    digest = state.wanted_digest(engine.environment_key(environment.id))
    force = worked or compiled
    return EnvironmentView(
        id=str(environment.id),
        name=environment.name,
        usability=is_usable(refusal_of(environment), check, digest, holds_this_cluster=same and digest is not None),
        namespaces=tuple(compiled.namespaces or ()) if compiled else (),
        cluster_resources=force is not None and force.cluster_resources,
    )


def _namespaces(specs: Iterable[ManagedEnvironmentSpec]) -> tuple[str, ...]:
    """All that any of them lists; a spec that lists none means all."""
    lists = [spec.namespaces or () for spec in specs]
    return () if any(not names for names in lists) else tuple(sorted({name for names in lists for name in names}))


def _parsed(text: str) -> ManagedEnvironmentSpec | None:
    return accepted_environment(text) if text else None

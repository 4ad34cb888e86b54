"""A tenant's environments as its deployments see them, and where those may go because of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from uuid import UUID

from services.kinds.managed_environment.model import MANAGED_ENVIRONMENT, ManagedEnvironmentSpec
from services.kinds.managed_environment.rules import EnvironmentView, is_usable
from services.kinds.managed_environment.validation import accepted_environment
from services.kinds.shared.lifecycle import refusal_of
from services.kinds.shared.rows import Check, Resource
from services.planner.domain.state import TenantState
from services.planner.domain.table import differing
from services.planner.engines.interface import Destination, Engine


class Environments:
    """What deployments must know. A name is only what a spec says: what has been resolved is bound to an identity.

    An environment is looked at when it is asked for: a tenant may have many, and most deployments name one.
    """

    def __init__(self, state: TenantState, engine: Engine) -> None:
        self._state, self._engine = state, engine
        self._rows = state.rows_of_kind(MANAGED_ENVIRONMENT.kind)
        self._views: dict[UUID, EnvironmentView] = {}

    @cached_property
    def _ids(self) -> Mapping[str, UUID]:
        return {each.name: each.id for each in self._state.of_kind(MANAGED_ENVIRONMENT.kind) if each.wanted}

    def named(self, name: str) -> EnvironmentView | None:
        """The one of this name that exists."""
        found = self._ids.get(name)
        return None if found is None else self._view(self._rows[found])

    def with_id(self, environment: UUID) -> EnvironmentView | None:
        """One that exists, or is gone but still held by its engine.

        What was deployed there may be on its way out too, and needs its cluster for that.
        """
        row = self._rows.get(environment)
        if row is None:
            return None
        is_held = row.wanted or self._engine.environment_key(environment) in self._state.objects
        return self._view(row) if is_held else None

    def _view(self, environment: Resource) -> EnvironmentView:
        if environment.id not in self._views:
            self._views[environment.id] = _view(self._state, environment, self._engine)
        return self._views[environment.id]


def changed_environments(now: TenantState, before: TenantState, engine: Engine) -> frozenset[UUID]:
    """Ids of environments of which anything has changed that others follow from."""
    rows, rows_before = now.rows_of_kind(MANAGED_ENVIRONMENT.kind), before.rows_of_kind(MANAGED_ENVIRONMENT.kind)
    if not rows and not rows_before:
        return frozenset()
    found = {*differing(now.resources, before.resources), *differing(now.checks, before.checks)}
    found |= {
        held.owner
        for key in differing(now.objects, before.objects)
        if (held := now.objects.get(key) or before.objects.get(key)) is not None and held.owner is not None
    }
    environments = (each for each in found if each in rows or each in rows_before)
    return frozenset(each for each in environments if _parts(now, each, engine) != _parts(before, each, engine))


def _parts(state: TenantState, environment: UUID, engine: Engine) -> object:
    key = engine.environment_key(environment)
    return state.resources.get(environment), state.checks.get(environment), state.objects.get(key)


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
    return any(
        spec.cluster_resources
        for each in state.rows_of_kind(MANAGED_ENVIRONMENT.kind).values()
        if engine.environment_key(each.id) in state.objects
        for spec in in_force(each, state.checks.get(each.id))
    )


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

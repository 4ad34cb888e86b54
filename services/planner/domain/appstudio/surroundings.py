"""What promotion runs name, read from the tenant's rows as the rules take it. For ``promotions``."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cache

from services.kinds.application.kind import APPLICATION
from services.kinds.component.model import COMPONENT, ComponentSpec
from services.kinds.environment.expiry import remaining_of
from services.kinds.environment.known import known_environment
from services.kinds.environment.model import ENVIRONMENT
from services.kinds.environment.rules import parent_cycles
from services.kinds.promotion_run import catalogue as texts
from services.kinds.promotion_run.model import PROMOTION_RUN
from services.kinds.promotion_run.progress import Surroundings
from services.kinds.shared.resource import PlainResource, within_quota
from services.kinds.shared.spec_text import readable_spec
from services.kinds.snapshot.model import SNAPSHOT, KnownSnapshot
from services.kinds.snapshot_environment_binding.known import known_binding
from services.kinds.snapshot_environment_binding.model import BINDING
from services.planner.domain.appstudio.bound_pairs import REFUSED, Pair, bound_pair, pair_of
from services.planner.domain.appstudio.bound_snapshots import Bindings
from services.planner.domain.appstudio.on_demand import OnDemand
from services.planner.domain.indexed_rows import Groups, index_of
from services.planner.domain.state import NO_ROWS, RESOURCES_OVER_QUOTA, TenantState

LOOKED_AT = (
    PROMOTION_RUN.kind,
    BINDING.kind,
    ENVIRONMENT.kind,
    SNAPSHOT.kind,
    APPLICATION.kind,
    COMPONENT.kind,
)


def _by_name(kind: str) -> Groups[PlainResource, str]:
    return Groups(lambda row: row.name if row.kind == kind and row.present else None)


BY_NAME = {kind: _by_name(kind) for kind in (ENVIRONMENT.kind, SNAPSHOT.kind, BINDING.kind, APPLICATION.kind)}
"""By kind and name, the incarnations that exist of what runs may name."""


def surroundings(state: TenantState) -> Surroundings:
    """What the runs of the tenant name. All Environments are read, because they follow each other."""
    rows = {row.name: row for row in state.plain_resources_in_order(ENVIRONMENT.kind) if row.present}
    named = {name: known for name, row in rows.items() if (known := known_environment(row))}
    expired = frozenset(name for name in named if remaining_of(rows[name]) is not None)
    going = frozenset(name for name in named if rows[name].deleting)
    environments = {name: known for name, known in named.items() if name not in expired | going}
    parents = {name: known.parent for name, known in environments.items()}
    bindings, idle_bindings = Bindings(state), cache(lambda: _idle_bindings(state))
    return Surroundings(
        applications=OnDemand(lambda name: _components(name, state) if _is_application(name, state) else None),
        crowded_out=OnDemand(lambda name: _crowded_out(name, state)),
        snapshots=OnDemand(lambda name: _application_of(_newest(state, SNAPSHOT.kind, name))),
        images=OnDemand(lambda name: _images_of(_newest(state, SNAPSHOT.kind, name))),
        not_in_force=OnDemand(lambda kind_and_name: _why_not_in_force(_newest(state, *kind_and_name))),
        expired=expired,
        going=going,
        parents=parents,
        automated=frozenset(name for name, known in environments.items() if known.is_automated),
        on_cycles=frozenset(parent_cycles({name: parent for name, parent in parents.items() if parent})),
        bindings=OnDemand(bindings.bound_snapshot),
        idle_bindings=OnDemand(lambda pair: idle_bindings().get(pair)),
        shown=OnDemand(bindings.revisions),
        bound_components=OnDemand(bindings.components),
        binding_names=OnDemand(lambda name: _is_binding(name, state) or None),
    )


def _incarnations(state: TenantState, kind: str, name: str) -> Collection[PlainResource]:
    return index_of(state.plain_resources, BY_NAME[kind]).get(name, NO_ROWS).values()


def _newest(state: TenantState, kind: str, name: str) -> PlainResource | None:
    return max(_incarnations(state, kind, name), key=lambda row: (row.created_at, row.id), default=None)


def _snapshot(row: PlainResource | None) -> KnownSnapshot | None:
    return readable_spec(KnownSnapshot, row) if row is not None else None


def _application_of(row: PlainResource | None) -> str | None:
    known = _snapshot(row)
    return known.application if known is not None else None


def _images_of(row: PlainResource | None) -> tuple[str, ...] | None:
    known = _snapshot(row)
    return known.images if known is not None else None


def _why_not_in_force(row: PlainResource | None) -> str | None:
    """Why an existing resource does not count. Specs of Applications are not read."""
    if row is None:
        return None
    if row.over_quota:
        return texts.BEYOND_QUOTA
    known: Mapping[str, Callable[[PlainResource], object]] = {
        ENVIRONMENT.kind: known_environment,
        SNAPSHOT.kind: _snapshot,
        BINDING.kind: known_binding,
    }
    is_invalid = row.kind in known and known[row.kind](row) is None
    return texts.INVALID_SPEC if is_invalid else None


def _is_application(name: str, state: TenantState) -> bool:
    rows = _incarnations(state, APPLICATION.kind, name)
    return any(row.is_active and not row.over_quota for row in rows)


def _is_binding(name: str, state: TenantState) -> bool:
    """Whether a binding has the name, in force or not, and its pair is known."""
    rows = _incarnations(state, BINDING.kind, name)
    return any(pair_of(row) is not None for row in rows if row.is_active or not row.over_quota)


def _components(application: str, state: TenantState) -> tuple[str, ...]:
    """The components of an application, by the names that the build service has for them."""
    return _names_of_components(application, state.plain_resources_of_kind(COMPONENT.kind).values())


def _crowded_out(application: str, state: TenantState) -> tuple[str, ...]:
    """The components of an application beyond the quota, by the same names."""
    return _names_of_components(application, _beyond_quota(state, COMPONENT.kind))


def _names_of_components(application: str, rows: Iterable[PlainResource]) -> tuple[str, ...]:
    specs = ((row, readable_spec(ComponentSpec, row)) for row in rows if row.is_active)
    own = {spec.component_name or row.name for row, spec in specs if spec and spec.application == application}
    return tuple(sorted(own))


def _idle_bindings(state: TenantState) -> dict[Pair, str]:
    """Names of bindings without room, or whose spec cannot be read, by their pair.

    For each pair the oldest one: it is in force if it has deployed anything.
    """
    rows = sorted(index_of(state.plain_resources, REFUSED).values(), key=lambda row: (row.created_at, row.id))
    return {pair: row.name for row in reversed(rows) if row.is_active and (pair := bound_pair(state, row)) is not None}


def _beyond_quota(state: TenantState, kind: str) -> list[PlainResource]:
    """Resources of a kind that are beyond the quota."""
    rows = index_of(state.plain_resources, RESOURCES_OVER_QUOTA).values()
    return [within_quota(row) for row in rows if row.kind == kind]

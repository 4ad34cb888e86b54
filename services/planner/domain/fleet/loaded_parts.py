"""Parts of the fleet that a look at it loads only if its rules read them.

Whoever reads a part that was not loaded gets a LookupError: an empty answer would let a rule decide wrongly without
anybody noticing. ``pipeline/fleet_planning.py`` has what each look loads.
"""

from __future__ import annotations

from collections.abc import Collection, ItemsView, Iterator, Mapping, ValuesView
from dataclasses import dataclass, field
from typing import Any, NoReturn
from uuid import UUID

from services.planner.domain.fleet.placement.assignments import PlacementRules
from services.planner.rows.tenants import TenantName, tenant_of_part


@dataclass(frozen=True, slots=True)
class TenantHere:
    """A tenant that an order is about, or a part of one: what it has on one of its instances."""

    id: UUID
    partition: int
    engine_instance_id: str
    deployments: int
    """GitOpsDeployments of which there is an object."""
    of_engine_cluster: int = 0
    """Those of them that are deployed to the engine's own cluster: they name no environment."""
    is_split: bool = False
    """Whether it is a part of a tenant, or the rest of one that has parts elsewhere."""
    load: int = 0
    """What its instance carries for it: measured of all tenants, and of those that pools and relief may move."""


class UnloadedRows(Mapping[Any, Any]):
    """In place of rows that were not loaded. Reading them raises LookupError."""

    def __init__(self, what: str) -> None:
        """``what``: names them in the error."""
        self._error = f"{what} of the fleet were not loaded"

    def __eq__(self, other: object) -> bool:
        """Whether it is the very same: nobody knows what the rows are."""
        return self is other

    __hash__ = object.__hash__

    def __getitem__(self, key: object) -> NoReturn:
        """Raises LookupError."""
        raise LookupError(self._error)

    def __iter__(self) -> NoReturn:
        """Raises LookupError."""
        raise LookupError(self._error)

    def __len__(self) -> int:
        """Raises LookupError."""
        raise LookupError(self._error)


UNLOADED_RULES = PlacementRules(UnloadedRows("assignments"), UnloadedRows("pins"))


@dataclass(frozen=True, slots=True)
class LoadedTenants(Mapping[TenantName, TenantHere]):
    """The tenants that were asked for: some by their names, those on some instances, or all.

    As a mapping it is that of all tenants: to iterate it raises LookupError unless all were loaded, and so does a name
    that nobody has asked for. Of a tenant that is split it has each part, by a name of its own (``TENANT@INSTANCE``).
    """

    rows: Mapping[TenantName, TenantHere] = field(default_factory=dict)
    """Those that were found, for rules that look at whatever was loaded."""
    names: frozenset[TenantName] = frozenset()
    """Of tenants that were asked for, with all of their parts."""
    instances: frozenset[str] = frozenset()
    """Those of which all tenants were asked for."""
    are_all: bool = False
    """Whether all tenants were asked for."""

    @classmethod
    def of_all(cls, rows: Mapping[TenantName, TenantHere]) -> LoadedTenants:
        """All tenants."""
        return cls(rows, are_all=True)

    def on(self, instances: Collection[str]) -> dict[TenantName, TenantHere]:
        """Those on these instances. Raises LookupError if the tenants of one of them were not loaded."""
        wanted = frozenset(instances)
        if not self.are_all and (unloaded := wanted - self.instances):
            raise LookupError(f"tenants of engine instances were not loaded: {', '.join(sorted(unloaded))}")
        return {name: each for name, each in self.rows.items() if each.engine_instance_id in wanted}

    def merged_with(self, others: LoadedTenants) -> LoadedTenants:
        """With ``others``: of a tenant that both have, their row."""
        return LoadedTenants(
            {**self.rows, **others.rows},
            self.names | others.names,
            self.instances | others.instances,
            are_all=self.are_all or others.are_all,
        )

    def __getitem__(self, name: TenantName) -> TenantHere:
        """The tenant, or part, of this name. Raises KeyError if there is none, LookupError if it was not loaded."""
        if name not in self.rows and not self.are_all and tenant_of_part(name) not in self.names:
            raise LookupError(f"tenant {'/'.join(name)} was not loaded")
        return self.rows[name]

    def __iter__(self) -> Iterator[TenantName]:
        """Names of all tenants. Raises LookupError if not all were loaded."""
        return iter(self._all())

    def __len__(self) -> int:
        """How many tenants there are. Raises LookupError if not all were loaded."""
        return len(self._all())

    def items(self) -> ItemsView[TenantName, TenantHere]:
        """All of them: faster than a look-up of each. Raises LookupError if not all were loaded."""
        return self._all().items()

    def values(self) -> ValuesView[TenantHere]:
        """All of them, without their names. Raises LookupError if not all were loaded."""
        return self._all().values()

    def _all(self) -> Mapping[TenantName, TenantHere]:
        if not self.are_all:
            raise LookupError("tenants were not loaded: all were asked for")
        return self.rows


UNLOADED_TENANTS = LoadedTenants()

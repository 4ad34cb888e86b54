"""Which tenants move so that a fleet that has changed is even again: as few as that takes, and none twice.

Tenants move if their instance is to be retired, or may not have them. Other tenants stay while each instance is within
the bound that placement keeps, too: it carries at most 1.25 times its share, and at least its share divided by that. An
instance outside the bound is brought to its share, not to the bound, so that the next new tenant moves none again. Of
the tenants that could move, those move first that would rather be on the target by their own order (``placement``). So
an instance that is added draws the tenants that would have been placed on it. No tenant moves to an instance that is
down, or that its affinity does not admit. Tenants that may be on the fewest instances are considered last, and move
among these.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from services.planner.domain.fleet.placement.assignments import Affinity
from services.planner.domain.fleet.placement.placement import BOUND, candidates_of, first_within_bound, order_of
from services.planner.rows.fleet import PlacementCandidate
from services.planner.rows.tenants import Tenant


@dataclass(frozen=True, slots=True)
class PlacedTenant:
    """A tenant on its instance."""

    tenant: Tenant
    load: int
    """Its share of the instance's load."""
    affinity: Affinity
    """Which instances may have it."""


@dataclass(frozen=True, slots=True)
class Relocation:
    """A tenant, and the instance that it has to move to."""

    placed: PlacedTenant
    target: PlacementCandidate


def rebalance(
    placed: Iterable[PlacedTenant], instances: Collection[PlacementCandidate], coming: Mapping[str, int]
) -> list[Relocation]:
    """The moves that even the fleet out; those of tenants that cannot stay are first.

    Args:
        placed: all tenants that are placed and may be moved.
        instances: all that there are.
        coming: by instance, the load of tenants that may not be moved or are about to come, and of queues.
    """
    alike: defaultdict[Affinity, list[PlacedTenant]] = defaultdict(list)
    for each in placed:
        alike[each.affinity].append(each)
    groups: defaultdict[tuple[PlacementCandidate, ...], list[PlacedTenant]] = defaultdict(list)
    for affinity, tenants in alike.items():
        staying = candidates_of(affinity.among(instances), instances, lambda each: not each.leaving)
        groups[tuple(sorted(staying, key=lambda each: each.id))] += tenants
    load = Counter(coming)
    for each in groups.pop((), []):  # there is none for it: it stays
        load[each.tenant.engine_instance_id] += each.load
    widest_first = sorted(groups, key=lambda group: (-len(group), [each.id for each in group]))
    found = [_Group(group, groups[group], load) for group in widest_first]
    for group in found:
        group.resettle()
    for group in found:
        group.even_out()
    return [move for group in found for move in group.moves()]


class _Group:
    """Instances that the same tenants may be on, with the tenants as planned so far."""

    def __init__(
        self, instances: Collection[PlacementCandidate], tenants: Collection[PlacedTenant], load: Counter[str]
    ) -> None:
        """``load``: what each instance carries; all groups share it, because some have instances in common."""
        self._instances = {each.id: each for each in instances}
        self._open = [each for each in instances if each.accepting and not each.is_down]
        self._on: dict[str, list[PlacedTenant]] = {name: [] for name in self._instances}
        self._homeless: list[PlacedTenant] = []
        for each in sorted(tenants, key=lambda each: (-each.load, each.tenant.id)):
            self._on.get(each.tenant.engine_instance_id, self._homeless).append(each)
        self._load = load
        for name, on in self._on.items():
            load[name] += sum(each.load for each in on)
        self._share: dict[str, float] = {}

    def resettle(self) -> None:
        """Place tenants whose instance is none of these as if they were new, the largest first."""
        for each in self._homeless:
            order = order_of(each.tenant.id, self._open or self._instances.values())
            self._put(each, first_within_bound(order, self._load).id)

    def even_out(self) -> None:
        """Bring instances outside the bound to their share, by exchange with those that are farthest from theirs.

        Each exchange brings two instances closer to their shares, so this ends.
        """
        self._share = self._shares()
        while sum(map(self._relieve, self._share)) + sum(self._fill(each.id) for each in self._open):
            pass

    def moves(self) -> list[Relocation]:
        """The moves of all tenants that are elsewhere by now; those of tenants that cannot stay are first."""
        moved = [
            Relocation(each, self._instances[name])
            for name, on in self._on.items()
            for each in on
            if each.tenant.engine_instance_id != name
        ]
        return sorted(moved, key=lambda move: move.placed.tenant.engine_instance_id in self._instances)

    def _shares(self) -> dict[str, float]:
        """What each should carry: one that takes no tenants at most what it carries, the others all the rest."""
        sharing, taking = dict(self._instances), {each.id for each in self._open}
        while True:
            total = sum(self._load[name] for name in sharing)
            capacity = sum(each.capacity for each in sharing.values())
            share = {name: total * each.capacity / capacity for name, each in sharing.items()}
            short = {name for name in sharing.keys() - taking if self._load[name] < share[name]}
            if not short:
                return {name: share.get(name, self._load[name]) for name in self._instances}
            sharing = {name: each for name, each in sharing.items() if name not in short}

    def _relieve(self, name: str) -> int:
        """Move tenants from an instance that carries too much; returns how many."""
        if self._load[name] <= BOUND * self._share[name]:
            return 0
        targets = sorted((each.id for each in self._open), key=self._fullness)
        return sum(self._exchange(name, target) for target in targets)

    def _fill(self, name: str) -> int:
        """Move tenants to an instance that carries too little; returns how many."""
        if self._load[name] * BOUND >= self._share[name]:
            return 0
        return sum(self._exchange(source, name) for source in sorted(self._share, key=self._fullness, reverse=True))

    def _exchange(self, source: str, target: str) -> int:
        """Move tenants from one instance to the other while neither crosses its share; returns how many.

        Tenants that move anyway are first, then those that prefer the target, then the largest.
        """

        def precedence(each: PlacedTenant) -> tuple[bool, bool]:
            return each.tenant.engine_instance_id != source, self._prefers(each, source, target)

        found = 0
        for each in sorted(self._on[source], key=precedence, reverse=True):
            spare, room = self._load[source] - self._share[source], self._share[target] - self._load[target]
            if 0 < each.load <= min(spare, room):
                self._on[source].remove(each)
                self._load[source] -= each.load
                self._put(each, target)
                found += 1
        return found

    def _put(self, placed: PlacedTenant, target: str) -> None:
        self._on[target].append(placed)
        self._load[target] += placed.load

    def _prefers(self, placed: PlacedTenant, source: str, target: str) -> bool:
        return order_of(placed.tenant.id, (self._instances[source], self._instances[target]))[0].id == target

    def _fullness(self, name: str) -> float:
        return self._load[name] / self._share[name] if self._share[name] else 0.0

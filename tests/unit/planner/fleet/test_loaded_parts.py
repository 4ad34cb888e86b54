"""Parts of the fleet that were not loaded: whoever reads them fails, and nobody decides on nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from uuid import UUID

import pytest

from services.planner.domain.fleet.fleet import Fleet
from services.planner.domain.fleet.loaded_parts import LoadedTenants, TenantHere

ROWS = Fleet({}, {}, {}, frozenset())
"""With what is read at each look, and nothing else."""
WEB, SHOP, PART = ("team", "web"), ("team", "shop"), ("team", "shop@two")
ON_ONE, ON_TWO = (TenantHere(UUID(int=n), 0, instance, 1) for n, instance in enumerate(("one", "two")))
FOUND = {SHOP: ON_ONE, PART: ON_TWO}
UNLOADED: dict[str, Callable[[Fleet], object]] = {
    "a tenant": lambda fleet: fleet.tenants.get(WEB),
    "whether there is a tenant": lambda fleet: WEB in fleet.tenants,
    "tenants of an instance": lambda fleet: fleet.tenants.on(["one"]),
    "all tenants": lambda fleet: [*fleet.tenants],
    "all tenants with their names": lambda fleet: fleet.tenants.items(),
    "how many tenants": lambda fleet: len(fleet.tenants),
    "loads": lambda fleet: fleet.load.get("one", 0),
    "moves that went back": lambda fleet: fleet.returned.get((UUID(int=1), "one"), 0),
    "evacuations": lambda fleet: fleet.evacuations.get(WEB),
    "whether there are evacuations": lambda fleet: bool(fleet.evacuations),
    "copies of evacuations": lambda fleet: {**fleet.evacuations},
    "pins": lambda fleet: fleet.rules.pinned_to(WEB),
    "assignments": lambda fleet: fleet.rules.affinity("team"),
    "a retired instance": lambda fleet: fleet.find_instance("one"),
    "a name that no retired instance has": lambda fleet: fleet.next_name("north", "general"),
    "what is on an instance": lambda fleet: replace(fleet, uncounted=frozenset({"one"})).holding("one"),
}


@pytest.mark.parametrize("read", UNLOADED.values(), ids=UNLOADED)
def test_part_when_it_was_not_loaded_then_to_read_it_fails(read: Callable[[Fleet], object]) -> None:
    with pytest.raises(LookupError, match=r"not (loaded|read)") as failure:
        read(ROWS)
    assert type(failure.value) is LookupError, "not a KeyError, which 'get' would make a None of"


def test_tenants_when_some_were_asked_for_by_name_then_those_and_their_parts_are_known_and_no_others() -> None:
    tenants = LoadedTenants(FOUND, names=frozenset({SHOP, WEB}))
    assert (tenants.get(SHOP), tenants.get(PART), tenants.get(WEB)) == (ON_ONE, ON_TWO, None)
    with pytest.raises(LookupError, match="tenant team/other was not loaded"):
        tenants.get(("team", "other"))
    with pytest.raises(LookupError, match="not loaded: all were asked for"):
        tenants.values()


def test_tenants_when_those_on_some_instances_were_asked_for_then_nobody_reads_those_on_others() -> None:
    tenants = LoadedTenants(FOUND, instances=frozenset({"one", "two", "three"}))
    assert (tenants.on(["two", "three"]), tenants[SHOP]) == ({PART: ON_TWO}, ON_ONE)
    with pytest.raises(LookupError, match="not loaded: five, four"):
        tenants.on(["one", "four", "five"])


def test_tenants_when_all_were_asked_for_then_they_are_a_mapping_like_any_other() -> None:
    tenants = LoadedTenants.of_all(FOUND)
    assert (dict(tenants), len(tenants), tenants.get(WEB)) == (FOUND, 2, None)
    assert tenants.on(["two", "elsewhere"]) == {PART: ON_TWO}


def test_tenants_when_they_are_merged_then_what_either_has_is_known() -> None:
    here = LoadedTenants({PART: ON_TWO}, instances=frozenset({"two"}))
    both = here.merged_with(LoadedTenants({SHOP: ON_ONE}, names=frozenset({SHOP})))
    assert (both.get(SHOP), both.on(["two"])) == (ON_ONE, {PART: ON_TWO})
    with pytest.raises(LookupError):
        both.on(["one"])
    assert len(both.merged_with(LoadedTenants.of_all({}))) == 2

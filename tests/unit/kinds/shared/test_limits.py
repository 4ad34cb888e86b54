"""Who is within a tenant's limits."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.common.api_resource import SECRET
from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT
from services.kinds.managed_environment.model import MANAGED_ENVIRONMENT
from services.kinds.registry import REGISTRY
from services.kinds.shared.limits import Claim, Limits, Share, Taken, over_quota
from tests.unit.kinds.given import id_of

SMALL = REGISTRY.limits({MANAGED_ENVIRONMENT.kind: 2, SECRET.kind: 2}, bytes_=100, destinations=10)


def claim(name: str, created_at: int = 0, size: int = 1, admitted: int | None = None, kind: str = SECRET.kind) -> Claim:
    return Claim(id_of(name), kind, created_at, name, Share(size), Share(admitted) if admitted is not None else None)


def listing(
    name: str, created_at: int, destinations: int, admitted: int | None = None, held: int | None = None
) -> Claim:
    """An environment that lists so many namespaces."""
    shares = (Share(0, number) if number is not None else None for number in (admitted, held))
    return Claim(id_of(name), MANAGED_ENVIRONMENT.kind, created_at, name, Share(0, destinations), *shares)


def beyond(*claims: Claim, limits: Limits = SMALL, taken: Taken | None = None) -> set[str]:
    refused = over_quota(claims, limits, taken)
    return {known.name for known in claims if known.id in refused}


@pytest.mark.parametrize(
    ("claims", "expected"),
    [
        pytest.param([], set(), id="none"),
        pytest.param([claim("a"), claim("b")], set(), id="as-many-as-allowed"),
        pytest.param([claim("c", 3), claim("a", 1), claim("b", 2)], {"c"}, id="youngest-beyond"),
        pytest.param([claim("b", 1), claim("c", 1), claim("a", 1)], {"c"}, id="same-second-by-name"),
        pytest.param(
            [claim("old", 1), claim("x", 8, admitted=1), claim("y", 9, admitted=1)], {"old"}, id="admitted-stay"
        ),
        pytest.param(
            [claim("x", 1), claim("y", 2), claim("e", 3, kind=MANAGED_ENVIRONMENT.kind)], set(), id="kinds-count-apart"
        ),
        pytest.param([claim("big", 1, size=90), claim("next", 2, size=11)], {"next"}, id="bytes"),
        pytest.param([claim("huge", 1, size=101), claim("next", 2, size=11)], {"huge"}, id="huge-keeps-nobody-out"),
        pytest.param([claim("a", 1, 60, 60), claim("b", 2, 50, 10)], {"b"}, id="grown-beyond-leaves"),
        pytest.param([claim("a", 1, 50, 60), claim("b", 2, 50, 10)], set(), id="one-shrinks-another-grows"),
        pytest.param([claim("a", 1, 70, 80), claim("b", 2, 70, 80)], set(), id="shrinking-is-always-fine"),
        pytest.param([claim(str(n), n, 1, 1) for n in range(5)], set(), id="limit-lowered"),
        pytest.param([listing("a", 1, 6), listing("b", 2, 5)], {"b"}, id="destinations"),
        pytest.param([listing("a", 1, 10, admitted=4), listing("b", 2, 1)], {"b"}, id="destinations-grow"),
        pytest.param([listing("a", 1, 11, admitted=4, held=4), listing("b", 2, 7)], {"a", "b"}, id="refused-keeps"),
        pytest.param([listing("a", 1, 11, admitted=4), listing("b", 2, 7)], {"a"}, id="refused-keeps-nothing"),
        pytest.param([listing("a", 1, 9, held=4), listing("b", 2, 2)], {"b"}, id="refused-grows-into-the-room"),
        pytest.param([listing("a", 1, 12, held=12), listing("b", 2, 1)], {"b"}, id="refused-grows-no-more"),
        pytest.param([listing("a", 1, 1), listing("b", 2, 11, held=1), listing("c", 3, 1)], {"b", "c"}, id="one-slot"),
    ],
)
def test_claims_when_room_is_limited_then_the_oldest_have_it(claims: list[Claim], expected: set[str]) -> None:
    assert beyond(*claims) == expected


def test_claims_when_others_have_taken_room_then_that_counts() -> None:
    assert beyond(claim("a"), claim("b"), taken=Taken({SECRET.kind: 1})) == {"b"}
    assert beyond(claim("a", size=10), taken=Taken(share=Share(91))) == {"a"}


def test_message_when_about_environments_then_it_names_the_limit_of_namespaces() -> None:
    assert (
        "100 GitOpsDeploymentManagedEnvironments, 2000 namespaces listed in them, and 16 MiB"
        in REGISTRY.limits().message(MANAGED_ENVIRONMENT.kind)
    )


def test_message_when_given_then_it_names_the_limit_and_the_way_out() -> None:
    message = REGISTRY.limits().message(GITOPS_DEPLOYMENT.kind)
    assert message.startswith("quota exceeded: this namespace may have 1000 GitOpsDeployments")
    assert message.endswith("; delete some, or ask the operator for more")


CLAIMS = st.lists(
    st.builds(claim, st.uuids().map(str), st.integers(0, 3), st.integers(0, 60), st.none() | st.integers(0, 60)),
    max_size=8,
)


@given(CLAIMS)
def test_claims_when_looked_at_again_then_the_outcome_is_stable(claims: list[Claim]) -> None:
    refused = over_quota(claims, SMALL)
    again = [replace(known, admitted=None if known.id in refused else known.size) for known in claims]
    assert over_quota(again, SMALL) <= refused


@given(CLAIMS)
def test_claims_when_any_were_waiting_then_those_let_in_keep_to_the_limits(claims: list[Claim]) -> None:
    fresh = [replace(known, admitted=None) for known in claims]
    refused = over_quota(fresh, SMALL)
    within = [known for known in fresh if known.id not in refused]
    assert len(within) <= SMALL.of(SECRET.kind)
    assert sum(known.size.bytes for known in within) <= SMALL.bytes

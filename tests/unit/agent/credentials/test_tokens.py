"""When a token of an account on a tenant's cluster is renewed, whatever the cluster grants."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from devstack.paths import ROOT
from services.agent.credentials.clusters.tokens import MAX_TOKEN_LENGTH, RENEWAL_SHARE, issued_token
from services.agent.credentials.network.resolver import Unreachable
from services.agent.settings import AgentSettings
from tests.unit.fake_clock import EPOCH

DAY = timedelta(days=1)

GRANTED = {
    "what-was-asked": (DAY, timedelta(hours=12)),
    "less": (timedelta(hours=2), timedelta(hours=1)),
    "more": (timedelta(days=365), timedelta(hours=12)),
    "hardly-anything": (timedelta(seconds=1), timedelta(minutes=5)),
    "what-is-over": (-DAY, timedelta(minutes=5)),
}


@pytest.mark.parametrize(("granted", "renewal"), GRANTED.values(), ids=GRANTED)
def test_token_when_issued_then_it_is_renewed_at_half_its_life_but_neither_all_the_time_nor_never(
    granted: timedelta, renewal: timedelta
) -> None:
    token = issued_token({"token": "text", "expirationTimestamp": (EPOCH + granted).isoformat()}, DAY, EPOCH)
    assert (token.expires_at - EPOCH, token.renew_at - EPOCH) == (granted, renewal)


GOOD = {"token": "text", "expirationTimestamp": EPOCH.isoformat()}
ANSWERS: dict[str, dict[str, Any]] = {
    "none": {},
    "no-text": GOOD | {"token": 7},
    "two-lines": GOOD | {"token": "a\nb"},
    "endless": GOOD | {"token": "a" * (MAX_TOKEN_LENGTH + 1)},
    "no-time": GOOD | {"expirationTimestamp": "soon"},
    "no-time-zone": GOOD | {"expirationTimestamp": "2026-01-01T00:00:00"},
}


@pytest.mark.parametrize("status", ANSWERS.values(), ids=ANSWERS)
def test_token_when_the_answer_is_of_another_shape_then_the_cluster_counts_as_one_that_does_not_answer_well(
    status: dict[str, Any],
) -> None:
    with pytest.raises(Unreachable):
        issued_token(status, DAY, EPOCH)


def test_renewal_when_operators_read_of_it_then_they_are_told_the_share_that_is_in_force() -> None:
    assert RENEWAL_SHARE == 0.5
    assert "renewed at half of it" in str(AgentSettings.model_fields["token_lifetime_seconds"].description)
    assert "agents renew them, at half their lifetime" in (ROOT / "docs/security.md").read_text()

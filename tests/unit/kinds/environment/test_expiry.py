"""When a preview is over: the times that count, and what is said of all others."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from services.common.errors import Permanent
from services.kinds.environment.catalogue import EXPIRES_AT
from services.kinds.environment.expiry import expires_at, is_preview, remaining_of, with_remaining
from services.kinds.environment.kind import KIND
from services.kinds.environment.known import KnownEnvironment
from services.kinds.environment.model import EnvironmentSpec
from services.kinds.shared.incarnation import update_resource
from services.kinds.shared.resource import Cause, Origin, PlainResource
from services.planner.domain import ids
from tests.unit.planner.given import START, resource

CLAIM = {"configuration": {"target": {"deploymentTargetClaim": {"claimName": "dev"}}}}
CREDENTIALS = {
    "unstableConfigurationFields": {
        "kubernetesCredentials": {
            "targetNamespace": "shop",
            "apiURL": "https://api.example.com",
            "clusterCredentialsSecret": "kubeconfig",
            "allowInsecureSkipTLSVerify": False,
        }
    }
}


def environment(annotation: str | None, **parts: Any) -> tuple[PlainResource, KnownEnvironment]:
    """One that was created at noon of 4 May 2026."""
    content = {"displayName": "qa", "deploymentStrategy": "Manual"} | (parts or CLAIM)
    metadata = {"annotations": {} if annotation is None else {EXPIRES_AT: annotation}}
    message: Any = resource(1, KIND.name, "qa", content, metadata=metadata).message
    object.__setattr__(message.event, "created_at", int(START.timestamp()) * 1000)
    tenant = ids.resource_id("local", "tenant")
    origin = Origin(tenant, "local", ids.resource_id("local", "uid-qa"))
    row = update_resource(KIND, None, message.event, origin, Cause(START, ""))
    return row, KnownEnvironment.of(EnvironmentSpec.model_validate(content))


TIMES = {
    "in UTC": ("2026-05-05T12:00:00Z", datetime(2026, 5, 5, 12, tzinfo=UTC)),
    "of another zone": ("2026-05-05T12:00:00+02:00", datetime(2026, 5, 5, 10, tzinfo=UTC)),
    "with a fraction": ("2026-05-05T12:00:00.250Z", datetime(2026, 5, 5, 12, 0, 0, 250_000, UTC)),
    "the last that may be": ("2027-05-04T12:00:00Z", datetime(2027, 5, 4, 12, tzinfo=UTC)),
    "none": (None, None),
}


@pytest.mark.parametrize(("annotation", "at"), TIMES.values(), ids=TIMES)
def test_environment_when_it_says_when_it_is_over_then_that_counts(annotation: str | None, at: datetime | None) -> None:
    assert expires_at(*environment(annotation)) == at


REFUSED = {
    "empty": ("", "must be a time"),
    "no date": ("tomorrow", "must be a time"),
    "a day that there is not": ("2026-02-30T12:00:00Z", "must be a time"),
    "without a zone": ("2026-05-05T12:00:00", "must be a time"),
    "a day alone": ("2026-05-05", "must be a time"),
    "a year of five digits": ("20260-05-05T12:00:00Z", "must be a time"),
    "before all time": ("0001-01-01T00:00:00+14:00", "must be a time"),
    "after all time": ("9999-12-31T23:59:59-14:00", "must be a time"),
    "of any length": ("2026-05-05T12:00:00Z" * 10_000, "must be a time"),
    "before it was created": ("2026-05-04T12:00:00Z", "before this environment was created, 2026-05-04T12:00:00Z"),
    "too far": ("2027-05-04T12:00:01Z", "more than 365 days after this environment was created"),
}


@pytest.mark.parametrize(("annotation", "message"), REFUSED.values(), ids=REFUSED)
def test_environment_when_what_it_says_cannot_be_meant_then_its_user_is_told(annotation: str, message: str) -> None:
    with pytest.raises(Permanent, match=message) as told:
        expires_at(*environment(annotation))
    assert len(str(told.value)) < 250


@pytest.mark.parametrize("parts", [CREDENTIALS, CLAIM | CREDENTIALS, {"tags": []}], ids=["own", "both", "neither"])
def test_environment_when_it_is_not_on_a_claim_then_it_does_not_expire(parts: dict[str, Any]) -> None:
    with pytest.raises(Permanent, match="is for environments whose place is a claim"):
        expires_at(*environment("2026-05-05T12:00:00Z", **parts))


def test_row_when_it_keeps_what_is_left_then_it_is_read_again() -> None:
    row, _ = environment(None)
    assert (is_preview(row), remaining_of(row)) == (False, None)
    over = with_remaining(row, 3)
    assert (is_preview(over), remaining_of(over), json.loads(over.progress)) == (True, 3, {"remaining": 3})
    assert with_remaining(over, None) == row

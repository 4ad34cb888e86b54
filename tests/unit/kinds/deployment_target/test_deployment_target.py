"""What becomes of a DeploymentTarget with its claim, by its class's policy."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from services.kinds.deployment_target.rows import Target
from services.kinds.deployment_target.rules import Claimant, Deprovisioning, TargetOutcome, target_outcome
from services.kinds.deployment_target_class.model import DEVSANDBOX
from tests.unit.kinds.deployment_target_claim.given import target

MADE = Deprovisioning(exists=True)
LEFT = TargetOutcome("Available", "a", is_deleted=True, unless="a")
STUCK = Deprovisioning(exists=True, is_stuck=True)
THERE = {"claimant": Claimant.STAYS}
GOING = {"claimant": Claimant.GOES}
GONE = {"claimant": Claimant.UNKNOWN}
REPLACED = {"claimant": Claimant.GONE}


def made(phase: str = "") -> Target:
    """One that the planner has ordered, for a claim."""
    return replace(target(for_="a", phase=phase), provisioned_by=DEVSANDBOX)


CASES: dict[str, tuple[Target, dict[str, Any], TargetOutcome]] = {
    "new": (target(), GONE, TargetOutcome("Available", "")),
    "kept for a claim that is yet to come": (target(for_="a"), GONE, TargetOutcome("Available", "a")),
    "made on demand, and its claim goes": (made(), GOING, TargetOutcome("Available", "a")),
    "made on demand when its claim was gone": (made(), GONE, LEFT),
    "made on demand when its claim was gone, seen again": (
        made("Available"),
        GONE,
        LEFT,
    ),
    "made on demand when another claim had its claim's name": (
        made(),
        REPLACED,
        TargetOutcome("Available", "a", is_deleted=True),
    ),
    "bound, and another claim has the name of its claim": (
        target(for_="a", phase="Bound"),
        REPLACED,
        TargetOutcome("Released", "", is_deleted=True),
    ),
    "made on demand when its claim was gone, policy Retain": (
        made(),
        {"policy": "Retain"} | GONE,
        TargetOutcome("Available", "a"),
    ),
    "made by a service of others when its claim was gone": (
        replace(made(), provisioned_by="example.com/vcluster"),
        GONE,
        TargetOutcome("Available", "a"),
    ),
    "given to a claim": (target(), {"owner": "a"} | THERE, TargetOutcome("Bound", "a")),
    "given to the claim that had it": (
        target(for_="a", phase="Bound"),
        {"owner": "a"} | THERE,
        TargetOutcome("Bound", "a"),
    ),
    "its claim goes, policy Delete": (
        target(for_="a", phase="Bound"),
        {"policy": "Delete"} | GONE,
        TargetOutcome("Released", "", is_deleted=True),
    ),
    "its claim goes, policy Retain": (
        target(for_="a", phase="Bound"),
        {"policy": "Retain"} | GONE,
        TargetOutcome("Released", ""),
    ),
    "its claim goes, and its class is gone": (
        target(for_="a", phase="Bound"),
        {"policy": ""} | GONE,
        TargetOutcome("Released", ""),
    ),
    "released, and the claim in it not cleared yet": (
        target(for_="a", phase="Released"),
        {"policy": "Retain"} | GONE,
        TargetOutcome("Released", ""),
    ),
    "released": (target(phase="Released"), GONE, TargetOutcome("Released", "")),
    "bound, and its claim is Lost or in dispute": (
        target(for_="a", phase="Bound"),
        THERE,
        TargetOutcome("Available", "a"),
    ),
    "deleted, nothing was made for it": (
        target(phase="Available", deleting=True),
        {"policy": "Delete"} | GONE,
        TargetOutcome("Available", "", has_finalizer=False),
    ),
    "deleted, what was made for it goes first": (
        target(for_="a", phase="Bound", deleting=True),
        {"policy": "Delete", "space": MADE} | THERE,
        TargetOutcome("Bound", "a"),
    ),
    "deleted with its claim, what was made for it goes first": (
        target(for_="a", phase="Bound", deleting=True),
        {"policy": "Delete", "space": MADE} | GONE,
        TargetOutcome("Released", ""),
    ),
    "deleted, what was made for it does not go": (
        target(phase="Released", deleting=True),
        {"policy": "Delete", "space": STUCK} | GONE,
        TargetOutcome("Failed", ""),
    ),
    "deleted, policy Retain: what was made for it stays": (
        target(phase="Released", deleting=True),
        {"policy": "Retain", "space": MADE} | GONE,
        TargetOutcome("Released", "", has_finalizer=False),
    ),
}


@pytest.mark.parametrize(("row", "given", "outcome"), CASES.values(), ids=CASES)
def test_target_when_it_stands_so_with_its_claim_then_it_is_bound_released_or_reclaimed(
    row: Target, given: dict[str, Any], outcome: TargetOutcome
) -> None:
    inputs: dict[str, Any] = {"owner": "", "policy": "Delete", "space": Deprovisioning()}
    assert target_outcome(row, **(inputs | given)) == outcome

"""What counts as something that a tenant has noticed."""

from __future__ import annotations

from typing import Any, cast

import pytest

from devstack.demo.continuity import Continuity
from devstack.demo.story import Story
from devstack.harness.mirror import Mirror
from services.common.errors import Unavailable
from services.common.kubernetes import Manifest

WEB = ("team-a", "web")


class OneDeployment:
    """As much of a story as is looked at: one deployment, and the config map that it deploys."""

    def __init__(self) -> None:
        self.users = self
        self.deployments = self
        self.version = "1"

    @property
    def objects(self) -> dict[tuple[str, str], Manifest]:
        """Deployments as well as config maps."""
        return {WEB: {"metadata": {"uid": "u", "resourceVersion": self.version}}}

    def deployed_to(self, tenant: str, name: str) -> tuple[Mirror, str]:
        """Its own namespace."""
        return cast("Mirror", self), tenant


def shown(sync: str, health: str) -> dict[str, Any]:
    metadata = {"namespace": "team-a", "name": "web"}
    return {"metadata": metadata, "status": {"sync": {"status": sync}, "health": {"status": health}}}


@pytest.fixture
def story() -> OneDeployment:
    return OneDeployment()


@pytest.fixture
def continuity(story: OneDeployment) -> Continuity:
    return Continuity(cast("Story", story))


def test_tenants_when_all_they_see_is_healthy_then_they_have_noticed_nothing(continuity: Continuity) -> None:
    continuity.note(shown("Synced", "Healthy"))
    continuity.require_unnoticed()


@pytest.mark.parametrize("seen", [("OutOfSync", "Healthy"), ("Synced", "Unknown"), ("", "")])
def test_tenants_when_a_status_is_another_for_a_moment_then_they_have_noticed_it(
    continuity: Continuity, seen: tuple[str, str]
) -> None:
    continuity.note(shown(*seen))
    continuity.note(shown("Synced", "Healthy"))
    with pytest.raises(Unavailable, match="tenants have seen it: team-a/web: "):
        continuity.require_unnoticed()


def test_tenants_when_a_deployment_is_gone_then_they_have_noticed_it(continuity: Continuity) -> None:
    continuity.note(shown("Synced", "Healthy"), is_gone=True)
    with pytest.raises(Unavailable, match="team-a/web: gone"):
        continuity.require_unnoticed()


def test_tenants_when_they_have_committed_then_what_shows_meanwhile_is_no_gap(
    story: OneDeployment, continuity: Continuity
) -> None:
    with continuity.committing(WEB):
        continuity.note(shown("OutOfSync", "Healthy"))
        story.version = "2"
    continuity.begin()
    continuity.require_unnoticed()


def test_workload_when_it_was_written_then_it_counts_as_touched(story: OneDeployment, continuity: Continuity) -> None:
    story.version = "2"
    with pytest.raises(Unavailable, match="workloads were touched: team-a/web"):
        continuity.require_unnoticed()

from __future__ import annotations

import pytest

from services.common.messages import WorkspaceObject
from services.watcher.rows.object_applier import ObjectApplier
from services.watcher.rows.owners import SEEN_FOR_SECONDS, Owners
from tests.unit.watcher.manifests import child, resource
from tests.unit.watcher.rows.fake_cluster import FakeCluster, controlled_by

DEPLOYMENT = "GitOpsDeployment"


@pytest.fixture
def cluster() -> FakeCluster:
    """With the owner."""
    cluster = FakeCluster()
    cluster.add(resource("prod"))
    return cluster


class Rig:
    """Owners at a time that the test sets."""

    def __init__(self, cluster: FakeCluster) -> None:
        self.now = 100.0
        self.owners = Owners(cluster, lambda: self.now)  # type: ignore[arg-type]

    async def has_owner(self, row: WorkspaceObject) -> bool:
        return await self.owners.has_owner(row)


async def test_owner_when_seen_a_moment_ago_then_it_is_not_read_again(cluster: FakeCluster) -> None:
    rig = Rig(cluster)
    assert await rig.has_owner(child("web"))
    rig.now += 0.9 * SEEN_FOR_SECONDS
    assert await rig.has_owner(child("api"))
    assert cluster.reads == ["prod"]


async def test_owner_when_it_has_gone_then_that_is_seen_a_moment_later(cluster: FakeCluster) -> None:
    rig = Rig(cluster)
    assert await rig.has_owner(child())
    cluster.remove(DEPLOYMENT, "prod")
    rig.now += SEEN_FOR_SECONDS
    assert not await rig.has_owner(child())


async def test_owner_when_another_incarnation_has_its_name_then_it_is_not_there(cluster: FakeCluster) -> None:
    rig = Rig(cluster)
    assert await rig.has_owner(child())
    assert not await rig.has_owner(child(owner_uid="former"))


async def test_owner_when_it_was_not_there_then_it_is_read_each_time(cluster: FakeCluster) -> None:
    rig = Rig(cluster)
    cluster.remove(DEPLOYMENT, "prod")
    assert not await rig.has_owner(child())
    cluster.add(resource("prod"))
    assert await rig.has_owner(child())


async def test_children_when_of_one_owner_then_each_is_read_and_the_owner_once_and_only_to_make_them(
    cluster: FakeCluster,
) -> None:
    applier = ObjectApplier(cluster, 200)  # type: ignore[arg-type]
    cluster.add(resource("there", **controlled_by("prod", "uid-prod")))
    for name in ("there", "web", "api"):
        assert await applier.apply_row(child(name))
    assert cluster.reads == ["there", "web", "prod", "api"]

"""Where tenants are, as gitops.tenant-clusters tells."""

from __future__ import annotations

import asyncio

import pytest

from services.common.errors import InvalidConfiguration, Retry
from services.common.kafka import TENANT_CLUSTERS, topic_follower
from services.common.messages import TenantClusters, namespace_digest
from services.watcher.commands.tenant_clusters import ClustersOfTenants
from tests.unit.watcher.commands.sealers import NoTopic, placed

DEADLINE_SECONDS = 10
TEAM = namespace_digest("local", "team-a", "")


class Topic:
    """Answers so, one after the other, and then nothing new."""

    topic = TENANT_CLUSTERS

    def __init__(self, *answers: list[TenantClusters] | Exception) -> None:
        self.answers = list(answers)
        self.asked = 0

    def read_news(self) -> list[TenantClusters]:
        self.asked += 1
        answer = self.answers.pop(0) if self.answers else []
        if isinstance(answer, Exception):
            raise answer
        return answer


def test_row_when_it_is_the_newest_of_its_tenant_then_it_counts_and_the_namespaces_it_concerns_are_told() -> None:
    told: list[str] = []
    tenants = ClustersOfTenants(NoTopic, lambda: True, [told.append])
    tenants.take_in([placed("south"), placed("east", "team-b")])
    assert tenants.clusters_of(TEAM) == {"south"}
    tenants.take_in([placed("north,south")])
    assert tenants.clusters_of(TEAM) == {"south", "north"}
    tenants.take_in([placed("", deleted=True)])
    assert tenants.clusters_of(TEAM) == frozenset()
    assert told == [TEAM, namespace_digest("local", "team-b", ""), TEAM, TEAM]


def test_row_when_the_namespace_of_its_tenant_is_known_by_another_uid_then_the_former_one_counts_no_more() -> None:
    tenants = ClustersOfTenants(NoTopic, lambda: True)
    tenants.take_in([placed("south"), placed("south", uid="uid-1")])
    assert tenants.clusters_of(TEAM) == frozenset()
    assert tenants.clusters_of(namespace_digest("local", "team-a", "uid-1")) == {"south"}


@pytest.mark.parametrize("trouble", [Retry("away"), InvalidConfiguration("there is no such topic")])
async def test_topic_when_it_cannot_be_read_then_it_is_asked_again_and_who_seals_waits(trouble: Exception) -> None:
    tenants = ClustersOfTenants(lambda: Topic(trouble, [placed("south")]), lambda: True)
    running = asyncio.create_task(tenants.run())
    async with asyncio.timeout(DEADLINE_SECONDS):
        await tenants.wait_until_read()
    running.cancel()
    assert tenants.clusters_of(TEAM) == {"south"}


async def test_topic_when_no_key_names_a_cluster_then_nobody_reads_it_until_one_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(topic_follower, "FOLLOW_SECONDS", 0)
    topic, named = Topic([placed("south")]), asyncio.Event()
    looked = 0

    def matters() -> bool:
        nonlocal looked
        looked += 1
        if looked == 3:
            assert topic.asked == 0
            named.set()
        return named.is_set()

    tenants = ClustersOfTenants(lambda: topic, matters)
    running = asyncio.create_task(tenants.run())
    async with asyncio.timeout(DEADLINE_SECONDS):
        await tenants.wait_until_read()
    running.cancel()
    assert looked >= 3


async def test_tenants_when_the_watcher_leads_again_then_what_it_knew_counts_once_the_topic_is_read_anew() -> None:
    topics = iter([Topic([placed("south")]), Topic(Retry("away"), [placed("north")])])
    tenants = ClustersOfTenants(lambda: next(topics), lambda: True)
    for clusters in ("south", "north"):
        running = asyncio.create_task(tenants.run())
        await asyncio.sleep(0)
        async with asyncio.timeout(DEADLINE_SECONDS):
            await tenants.wait_until_read()
        assert tenants.clusters_of(TEAM) == {clusters}
        running.cancel()
        await asyncio.wait([running])

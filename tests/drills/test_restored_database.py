"""The database is restored from a backup: what has happened since is replayed, and nothing is deployed anew."""

from __future__ import annotations

import asyncio
from math import inf

import pytest

from devstack.harness.hosted import HostedStack
from devstack.harness.operator import AGENTS, EDGES, Operator
from services.common.kubernetes import Manifest
from tests.drills.claimed_shop import ClaimedShop
from tests.drills.test_lost_database import identity
from tests.e2e.api import Api
from tests.e2e.moving import Mover
from tests.e2e.operators import of_instances, sole_instance
from tests.e2e.tenant import Tenant, application_name, find, path

DRILL_SECONDS = 600
SECOND = "gitops-service-argocd-2"


class History:
    """What a tenant does before and after a backup."""

    def __init__(self, tenant: Tenant, api: Api, operator: Operator) -> None:
        self.tenant, self._api, self._operator = tenant, api, operator
        self.resources = dict[str, Manifest]()

    async def live_through(self) -> None:
        """Afterwards ``kept``, ``changed``, ``manual`` and ``created`` are there, and ``deleted`` is gone."""
        for name in ("kept", "changed", "deleted"):
            self.resources[name] = await self.tenant.create(name)
        self.resources["manual"] = await self.tenant.create("manual", type="manual")
        await self._until_synced("kept", "changed", "deleted")
        await asyncio.to_thread(self._operator.run, "gitopsctl backup")
        self.resources["created"] = await self.tenant.create("created")
        await self.tenant.patch("changed", path("since"))
        await self._api.sync_run("once", deployment="manual")
        self.ran = await self._api.until_phase("once", "Succeeded")
        await self.tenant.delete("deleted")
        await self.tenant.until_application_gone(self.resources["deleted"])
        await self._until_synced("kept", "changed", "created", "manual")
        self.before = self.identities()
        gone = application_name(self.resources["deleted"])
        back = self.tenant.applications.until(
            "what was deleted is back", lambda objects: find(objects, gone) is not None, DRILL_SECONDS
        )
        self._resurrection = asyncio.create_task(back)

    def identities(self) -> dict[str, tuple[str, str, int]]:
        """Of the Applications that shall be there."""
        return {name: identity(self.tenant, item) for name, item in self.resources.items() if name != "deleted"}

    async def require_unchanged(self) -> None:
        """The Applications are those that they were, and follow what is asked for next."""
        await self.tenant.patch("kept", path("afterwards"))
        name = application_name(self.resources["kept"])
        await self.tenant.applications.until(
            f"{name} follows", lambda objects: (find(objects, name) or {})["spec"]["source"]["path"] == "afterwards"
        )
        now = self.identities()
        assert {name: found[:2] for name, found in now.items()} == {name: was[:2] for name, was in self.before.items()}
        assert {**now, "kept": None} == {**self.before, "kept": None}, "nothing was written but what was asked for"
        assert not self._resurrection.done(), "what was deleted was deployed once more"
        self._resurrection.cancel()
        assert await self._api.until_phase("once", "Succeeded") == self.ran
        await self._until_synced("kept", "changed", "created", "manual")

    def require_unswept(self) -> None:
        """What is there was not among what the operator was shown before it was swept."""
        swept = self._operator.told["gitopsctl rebuild sweep --dry-run"]
        assert not [name for name in self.before if application_name(self.resources[name]) in swept]

    async def _until_synced(self, *names: str) -> None:
        for name in names:
            await self.tenant.until_status("Synced", name, sync__status="Synced")


async def test_database_when_restored_from_a_backup_then_what_came_after_it_is_replayed_and_nothing_comes_back(
    stack: HostedStack, operator: Operator, tenant: Tenant, other_tenant: Tenant, api: Api, claimed_shop: ClaimedShop
) -> None:
    """Another tenant was moved after the backup, and what it has on a claim has come after that."""
    moved = await other_tenant.create()
    await other_tenant.until_status("Synced", sync__status="Synced")
    history = History(tenant, api, operator)
    await history.live_through()
    mover = Mover(stack, other_tenant, other_tenant.applications)
    await mover.order(moved)
    await mover.until_done()
    await claimed_shop.begin()
    before = identity(other_tenant, moved)
    twice = asyncio.create_task(
        mover.applications.until("it is on two instances", lambda _: len(mover.places(moved)) > 1, inf)
    )
    by_hand = {
        1: [operator.stop("planner")],
        2: [operator.lose_database],
        3: [operator.start("planner"), *operator.restart(*EDGES)],
    }
    await asyncio.to_thread(operator.follow_runbook, "restored-database.md", by_hand)
    await history.require_unchanged()
    history.require_unswept()
    await claimed_shop.require_unchanged()
    assert application_name(moved) not in operator.told["gitopsctl rebuild sweep --dry-run"]
    await other_tenant.patch("web", path("afterwards"))
    await other_tenant.until_path(moved, "afterwards")
    assert identity(other_tenant, moved)[:2] == before[:2], "who was moved after the backup stays where they are"
    twice.cancel()
    with pytest.raises(asyncio.CancelledError):
        await twice  # or who was moved after the backup was deployed a second time


@pytest.mark.long
async def test_kafka_and_database_when_both_are_lost_then_backup_and_lists_bring_them_back_and_nothing_comes_back(
    stack: HostedStack, operator: Operator, tenant: Tenant, other_tenant: Tenant, api: Api
) -> None:
    history = History(tenant, api, operator)
    assert of_instances(stack, "drain", SECOND).exit_code == 0  # so by the backup no newcomer would be placed there
    await history.live_through()
    assert of_instances(stack, "undrain", SECOND).exit_code == 0
    with sole_instance(stack, SECOND):
        newcomers = await other_tenant.create()
        await other_tenant.application_of(newcomers)
    await other_tenant.until_status("Synced", sync__status="Synced")
    before = identity(other_tenant, newcomers)[:2]
    by_hand = {
        1: [operator.stop(*AGENTS, "planner", "watcher", "connect")],
        2: [operator.stop("kafka"), operator.lose_disk("kafka"), operator.start("kafka"), operator.lose_database],
        3: [operator.start("connect")],
        4: [operator.start("planner"), operator.start("watcher")],
        5: [operator.start(*AGENTS)],
    }
    await asyncio.to_thread(operator.follow_runbook, "lost-kafka-and-database.md", by_hand)
    await history.require_unchanged()
    history.require_unswept()
    assert identity(other_tenant, newcomers)[:2] == before, "who came after the backup stays where they were"
    assert of_instances(stack, "undrain", SECOND).exit_code == 0

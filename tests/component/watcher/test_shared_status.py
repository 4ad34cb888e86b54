"""A status that another controller writes, too, on a real API server: each keeps its members, whoever comes first."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import orjson
import pytest

from services.common.kubernetes import KubeClient, Manifest, Rejected
from services.common.ownership import WATCHER_FIELD_MANAGER
from services.watcher.followed_kinds import by_name, followed
from services.watcher.rows.status_writer import StatusWriter
from tests.component.watcher.rig import USER, Rig, Tenant
from tests.component.watcher.test_commands_sent import changed
from tests.component.watcher.test_projections import REVIEWER, REVIEWS, SPEC, serve_reviews
from tests.component.watcher.test_status_written import compiled
from tests.unit.kinds.review.kind import REVIEW
from tests.unit.watcher.manifests import row

SHARED = by_name(followed(REVIEWS))
YES = {"outcome": "yes", "remarks": ["fine"]}
NOTE = "for others"
READY = {"type": "Ready", "status": "True", "reason": "", "message": ""}
LATE = READY | {"type": "Late"}
OURS = {"conditions": [READY], "round": 1}
OTHERS = {"verdict": YES, "note": NOTE}


@pytest.fixture(autouse=True)
def served(kubeconfig: Path, tmp_path: Path) -> None:
    serve_reviews(kubeconfig, tmp_path)


@dataclass
class Review:
    """One resource, as both controllers write it."""

    kube: KubeClient
    namespace: str
    uid: str

    async def read(self) -> Manifest:
        return await self.kube.get_object(REVIEW, self.namespace, "monday")

    async def status(self) -> Any:
        return (await self.read()).get("status")

    async def answer(self, **members: Any) -> None:
        """The other controller writes these members."""
        patch = {"status": members}
        await self.kube.patch_object(
            REVIEW, self.namespace, "monday", patch, field_manager=REVIEWER, subresource="status"
        )

    async def write(self, status: Manifest, kube: object = None, **columns: Any) -> bool:
        """We write what a row says."""
        values = {"namespace": self.namespace, "kind": REVIEW.kind, "uid": self.uid} | columns
        writer = StatusWriter(cast("KubeClient", kube or self.kube), SHARED)
        return await writer.write_status(row("monday", status=orjson.dumps(status).decode(), **values))


@pytest.fixture
async def review(kube: KubeClient, tenant: Tenant) -> Review:
    created = await tenant.create_any(REVIEW, "monday", spec=SPEC)
    return Review(kube, tenant.namespace, created["metadata"]["uid"])


async def test_members_when_written_then_another_controllers_stay(review: Review) -> None:
    await review.answer(**OTHERS)
    assert await review.write(OURS)
    assert await review.status() == OTHERS | OURS
    await review.answer(verdict={"outcome": "no"})
    assert await review.status() == OTHERS | OURS | {"verdict": YES | {"outcome": "no"}}


async def test_members_when_there_is_no_status_then_they_begin_it(review: Review) -> None:
    assert await review.write(OURS)
    assert await review.status() == OURS


async def test_members_when_the_row_has_them_no_more_then_they_are_removed_and_lists_are_replaced(
    review: Review,
) -> None:
    await review.answer(**OTHERS)
    await review.write(OURS | {"conditions": [READY, LATE]})
    await review.write({"conditions": [LATE]})
    assert await review.status() == OTHERS | {"conditions": [LATE]}
    await review.write({})
    assert await review.status() == OTHERS


async def test_members_when_written_again_then_nothing_changes(review: Review) -> None:
    await review.answer(**OTHERS)
    await review.write({"conditions": [READY]})
    before = await review.read()
    assert await review.write({"conditions": [READY]})
    assert await review.read() == before


async def test_members_when_the_row_has_another_controllers_then_these_are_not_written(review: Review) -> None:
    await review.answer(**OTHERS)
    await review.write(OURS | {"verdict": {"outcome": "ours"}, "note": "ours"})
    assert await review.status() == OTHERS | OURS


async def test_members_when_nobody_knows_any_more_who_wrote_them_then_they_are_removed_all_the_same(
    review: Review,
) -> None:
    """As after a restore from a backup, or when another controller has written them once."""
    await review.write(OURS)
    await review.answer(round=7)
    cleared = {"metadata": {"managedFields": [{}]}}
    await review.kube.patch_object(REVIEW, review.namespace, "monday", cleared, field_manager=USER)
    await review.write({})
    assert await review.status() == {}


@dataclass
class Interleaved:
    """The other controller acts right before the request with this number, which comes from us."""

    kube: KubeClient
    number: int
    act: Callable[[], Awaitable[None]]
    done: int = 0

    async def get_object(self, *args: Any) -> Manifest:
        await self._before()
        return await self.kube.get_object(*args)

    async def patch_object(self, *args: Any, **options: Any) -> Manifest:
        await self._before()
        return await self.kube.patch_object(*args, **options)

    async def _before(self) -> None:
        self.done += 1
        if self.done == self.number:
            await self.act()


@pytest.mark.parametrize("number", [1, 2, 3])
async def test_status_when_the_other_controller_begins_it_before_any_request_of_ours_then_both_have_theirs(
    review: Review, number: int
) -> None:
    """Without a status there are three: the patch that fails, the look, and the patch that begins it."""

    async def answer() -> None:
        await review.answer(**OTHERS)

    between = Interleaved(review.kube, number, answer)
    assert await review.write(OURS, between)
    assert between.done >= number
    assert await review.status() == OTHERS | OURS


async def test_status_when_both_write_at_the_same_time_then_nothing_of_either_is_lost(review: Review) -> None:
    async def answers() -> None:
        for number in range(30):
            await review.answer(verdict={"outcome": str(number)})

    async def writes() -> None:
        for number in range(30):
            await review.write({"conditions": [READY], "round": number})

    await asyncio.gather(answers(), writes())
    assert await review.status() == {"verdict": {"outcome": "29"}, "conditions": [READY], "round": 29}


async def test_members_when_the_resource_is_another_one_or_gone_then_nothing_is_written(
    review: Review, tenant: Tenant
) -> None:
    await review.kube.delete_object(REVIEW, review.namespace, "monday")
    assert not await review.write(OURS)
    await tenant.create_any(REVIEW, "monday", spec=SPEC)
    assert not await review.write(OURS)
    await review.answer(**OTHERS)
    assert not await review.write(OURS)
    assert await review.status() == OTHERS


@pytest.mark.parametrize("begun", [False, True])
async def test_members_when_the_crd_refuses_them_then_that_is_told_and_nothing_is_written(
    review: Review, begun: bool
) -> None:
    if begun:
        await review.answer(**OTHERS)
    with pytest.raises(Rejected, match=r"status\.round"):
        await review.write({"round": "no number"})
    assert await review.status() == (OTHERS if begun else None)


async def test_row_when_a_kind_shares_its_status_then_a_watcher_writes_its_members_and_sends_the_others(
    rig: Rig, kube: KubeClient, tenant: Tenant
) -> None:
    created = await tenant.create_any(REVIEW, "monday", spec=SPEC)
    review = Review(kube, tenant.namespace, created["metadata"]["uid"])
    async with rig.watcher(followed(REVIEWS)):
        await review.answer(**OTHERS)
        offset = rig.rows.write(compiled(rig, created, OURS, kind=REVIEW.kind))
        await rig.until_committed(offset + 1)
        assert await review.status() == OTHERS | OURS
        await review.answer(verdict={"outcome": "no"})
        statuses = await rig.commands.until(
            "the last answer was sent",
            lambda sent: [
                each.event.status for each in changed(sent, tenant.namespace, "monday") if '"no"' in each.event.status
            ],
        )
    assert [orjson.loads(text) for text in statuses] == [{"verdict": YES | {"outcome": "no"}}]


STATUS_OF_ANOTHER_UID: dict[str, Callable[[Review], Awaitable[Manifest]]] = {
    "server-side-apply": lambda review: review.kube.apply_object(
        REVIEW,
        {
            "apiVersion": REVIEW.api_version,
            "kind": REVIEW.kind,
            "metadata": {"name": "monday", "namespace": review.namespace, "uid": "another"},
            "status": OURS,
        },
        field_manager=WATCHER_FIELD_MANAGER,
        subresource="status",
    ),
    "merge-patch": lambda review: review.kube.patch_object(
        REVIEW,
        review.namespace,
        "monday",
        {"metadata": {"uid": "another"}, "status": OURS},
        field_manager=WATCHER_FIELD_MANAGER,
        subresource="status",
    ),
}


@pytest.mark.parametrize("write", STATUS_OF_ANOTHER_UID.values(), ids=STATUS_OF_ANOTHER_UID)
async def test_api_server_when_a_status_is_not_written_by_json_patch_then_it_does_not_compare_the_uid(
    review: Review, write: Callable[[Review], Awaitable[Manifest]]
) -> None:
    """Why we do not write it so; if this fails, simpler requests may do."""
    await write(review)
    assert await review.status() == OURS

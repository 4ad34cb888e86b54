from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest

from services.common.errors import GitOpsError, Poison, Retry, Wait
from services.common.kubernetes import Conflict, Manifest, NotFound, Rejected
from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT
from services.kinds.shared.api_group import FINALIZER
from services.watcher.followed_kinds import FollowedKind, by_name
from services.watcher.rows.status_writer import StatusWriter, require_known_kind
from tests.unit.watcher.manifests import resource, row

OTHER = "example.com/other"


class FakeKube:
    """An API server with one object, or none. ``failures`` are raised by the next patches; None lets one through."""

    def __init__(self, manifest: Manifest | None, *failures: GitOpsError | None) -> None:
        self.manifest = manifest
        self.failures = list(failures)
        self.patches: list[tuple[str, list[Manifest]]] = []

    async def get_object(self, *_: Any) -> Manifest:
        if self.manifest is None:
            raise NotFound("not found")
        return self.manifest

    async def patch_object(self, *_: Any, field_manager: str, subresource: str = "") -> Manifest:
        self.patches.append((subresource, _[-1]))
        failure = self.failures.pop(0) if self.failures else None
        if failure is not None:
            raise failure
        manifest = await self.get_object()
        for operation in _[-1]:
            if operation["path"] == "/metadata/finalizers" and operation["op"] == "replace":
                manifest["metadata"]["finalizers"] = operation["value"]
        return manifest

    @property
    def written(self) -> list[str]:
        """Which part each patch was about."""
        return [subresource or "finalizers" for subresource, _ in self.patches]


def writer(kube: Any) -> StatusWriter:
    return StatusWriter(kube)


UNPROCESSABLE = Rejected("the server rejected our request", 422)

STATUS: dict[str, tuple[Callable[[], FakeKube], bool]] = {
    "there": (lambda: FakeKube(resource()), True),
    "gone": (lambda: FakeKube(None), False),
    "another-uid": (lambda: FakeKube(resource(uid="another"), UNPROCESSABLE), False),
    "gone-after-the-refusal": (lambda: FakeKube(None, UNPROCESSABLE), False),
}


@pytest.mark.parametrize(("make", "expected"), STATUS.values(), ids=STATUS)
async def test_status_when_the_resource_is_like_this_then_it_is_written_or_not_needed(
    make: Callable[[], FakeKube], expected: bool
) -> None:
    assert await writer(make()).write_status(row()) is expected


ERRORS: dict[str, tuple[GitOpsError, type[GitOpsError]]] = {
    "schema-refuses-it": (UNPROCESSABLE, Rejected),
    "forbidden": (Rejected("forbidden", 403), Wait),
    "malformed": (Rejected("bad request", 400), Rejected),
    "api-server-away": (Retry("away"), Retry),
}


@pytest.mark.parametrize(("failure", "expected"), ERRORS.values(), ids=ERRORS)
async def test_status_when_it_cannot_be_written_then_the_error_says_what_to_do(
    failure: GitOpsError, expected: type[GitOpsError]
) -> None:
    with pytest.raises(expected):
        await writer(FakeKube(resource(), failure)).write_status(row())


SHARED = by_name([FollowedKind(GITOPS_DEPLOYMENT, own_status=frozenset({"health"}))])
BEGIN, MEMBERS = "/status", "/status/health"

ATTEMPTS: dict[str, tuple[list[bool], list[bool], list[str], type[GitOpsError] | None]] = {
    "it-has-a-status": ([], [], [MEMBERS], None),
    "it-has-none": ([True], [False], [MEMBERS, BEGIN], None),
    "another-begins-it-meanwhile": ([True, True], [False, True], [MEMBERS, BEGIN, MEMBERS], None),
    "another-begins-it-before-we-look": ([True], [True], [MEMBERS, MEMBERS], None),
    "the-schema-refuses-a-member": ([True, True], [True, True], [MEMBERS, MEMBERS], Rejected),
    "the-schema-refuses-it-at-first": ([True, True], [False, False], [MEMBERS, BEGIN], Rejected),
    "it-comes-and-goes": ([True] * 9, [False, True] * 5, [MEMBERS, BEGIN, MEMBERS, BEGIN, MEMBERS], Retry),
}
"""Which patches fail, whether there is a status after each of these, the path of each patch, and the error."""


class ChangingKube(FakeKube):
    """The object has a status or has none, each time that it is read."""

    def __init__(self, refusals: list[bool], statuses: list[bool]) -> None:
        super().__init__(resource(), *[UNPROCESSABLE if refused else None for refused in refusals])
        self.statuses = list(statuses)

    async def get_object(self, *_: Any) -> Manifest:
        found = await super().get_object()
        return found | ({"status": {}} if self.statuses and self.statuses.pop(0) else {})


@pytest.mark.parametrize(("refusals", "statuses", "paths", "error"), ATTEMPTS.values(), ids=ATTEMPTS)
async def test_members_when_another_controller_writes_the_status_too_then_they_are_written_to_what_is_there(
    refusals: list[bool], statuses: list[bool], paths: list[str], error: type[GitOpsError] | None
) -> None:
    kube: Any = ChangingKube(refusals, statuses)
    with pytest.raises(error) if error is not None else nullcontext():
        await StatusWriter(kube, SHARED).write_status(row())
    assert [patch[-1]["path"] for _, patch in kube.patches] == paths


RELEASES: dict[str, tuple[Callable[[], FakeKube], list[str]]] = {
    "only-ours": (lambda: FakeKube(resource(finalizers=[FINALIZER])), ["finalizers"]),
    "others-stay": (lambda: FakeKube(resource(finalizers=[OTHER, FINALIZER])), ["finalizers", "status"]),
    "not-held": (lambda: FakeKube(resource(finalizers=[OTHER])), ["status"]),
    "gone": (lambda: FakeKube(None), []),
    "another-uid": (lambda: FakeKube(resource(uid="another", finalizers=[FINALIZER])), []),
    "changed-meanwhile": (
        lambda: FakeKube(resource(finalizers=[FINALIZER]), Conflict("conflict"), UNPROCESSABLE),
        ["finalizers"] * 3,
    ),
    "gone-meanwhile": (lambda: FakeKube(resource(finalizers=[FINALIZER]), NotFound("gone")), ["finalizers"]),
}


@pytest.mark.parametrize(("make", "written"), RELEASES.values(), ids=RELEASES)
async def test_finalizer_when_released_then_these_parts_are_written(
    make: Callable[[], FakeKube], written: list[str]
) -> None:
    kube = make()
    await writer(kube).write_status(row(release_finalizer=True))
    assert kube.written == written


async def test_finalizer_when_the_list_never_keeps_still_then_it_is_tried_again_later() -> None:
    kube = FakeKube(resource(finalizers=[FINALIZER]), *[Conflict("conflict")] * 20)
    with pytest.raises(Retry, match="keep changing"):
        await writer(kube).write_status(row(release_finalizer=True))


def test_row_when_its_kind_is_unknown_then_it_is_poison() -> None:
    with pytest.raises(Poison, match="OfTheFuture"):
        require_known_kind(row(kind="OfTheFuture"))

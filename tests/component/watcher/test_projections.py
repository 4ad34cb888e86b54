"""What a kind declares of metadata and status, on a real API server: its changes are sent, and no others."""

from __future__ import annotations

from pathlib import Path, PurePath

import pytest

from devstack.generate.manifests import crd_files
from services.cli.installation import crds
from services.common.kubernetes import KubeClient, Manifest
from services.common.ownership import WATCHER_FIELD_MANAGER
from services.kinds.registry import Registry
from services.watcher.followed_kinds import followed
from tests.component.watcher.rig import USER, Rig, Sent, Tenant
from tests.component.watcher.test_commands_sent import changed
from tests.unit.kinds.review.kind import KIND, REVIEW, TEAM, TICKET

REVIEWS = Registry((KIND,))
REVIEWER = "reviewer"
SPEC = {"gitopsDeploymentName": "web"}
YES, NO = {"outcome": "yes"}, {"outcome": "no"}


@pytest.fixture(autouse=True)
def served(kubeconfig: Path, tmp_path: Path) -> None:
    serve_reviews(kubeconfig, tmp_path)


def serve_reviews(kubeconfig: Path, folder: Path) -> None:
    """Have the API server serve the kind."""
    definition = folder / f"{REVIEW.plural}.yaml"
    definition.write_text(dict(crd_files(REVIEWS))[PurePath(definition.name)])
    crds.apply(kubeconfig, [definition])


async def write(
    kube: KubeClient, tenant: Tenant, patch: Manifest, manager: str = USER, subresource: str | None = None
) -> None:
    await kube.patch_object(REVIEW, tenant.namespace, "monday", patch, field_manager=manager, subresource=subresource)


async def written_status(kube: KubeClient, tenant: Tenant, manager: str, **members: object) -> None:
    await write(kube, tenant, {"status": members}, manager, "status")


def of_monday(sent: list[Sent], tenant: Tenant) -> list[tuple[str, str]]:
    """Metadata and status of its commands."""
    return [(item.event.metadata, item.event.status) for item in changed(sent, tenant.namespace, "monday")]


async def test_status_when_another_controller_changes_a_declared_member_then_it_is_sent_and_our_own_writes_are_not(
    rig: Rig, kube: KubeClient, tenant: Tenant
) -> None:
    await tenant.create_any(REVIEW, "monday", spec=SPEC)
    async with rig.watcher(followed(REVIEWS)):
        await rig.commands.until("it was sent", lambda sent: len(of_monday(sent, tenant)) == 1)
        await written_status(kube, tenant, REVIEWER, verdict=YES)
        await rig.commands.until("the answer was sent", lambda sent: len(of_monday(sent, tenant)) == 2)
        await written_status(kube, tenant, WATCHER_FIELD_MANAGER, round=1)
        await written_status(kube, tenant, REVIEWER, note="undeclared")
        await written_status(kube, tenant, REVIEWER, verdict=NO)
        await rig.commands.until("the next answer was sent", lambda sent: len(of_monday(sent, tenant)) == 3)
    statuses = [status for _, status in of_monday(rig.commands.sent, tenant)]
    assert statuses == ["{}", '{"verdict":{"outcome":"yes"}}', '{"verdict":{"outcome":"no"}}']


async def test_metadata_when_a_declared_part_changes_then_it_is_sent_and_other_parts_are_not(
    rig: Rig, kube: KubeClient, tenant: Tenant
) -> None:
    await tenant.create_any(REVIEW, "monday", spec=SPEC)
    async with rig.watcher(followed(REVIEWS)):
        await rig.commands.until("it was sent", lambda sent: len(of_monday(sent, tenant)) == 1)
        await write(kube, tenant, {"metadata": {"labels": {"app": "web"}, "annotations": {TEAM: "no label"}}})
        await write(kube, tenant, {"metadata": {"labels": {TEAM: "shop"}}})
        await rig.commands.until("the label was sent", lambda sent: len(of_monday(sent, tenant)) == 2)
        await write(kube, tenant, {"metadata": {"annotations": {TICKET: "7"}}})
        await rig.commands.until("the annotation was sent", lambda sent: len(of_monday(sent, tenant)) == 3)
    assert [metadata for metadata, _ in of_monday(rig.commands.sent, tenant)] == [
        '{"annotations":{},"labels":{},"ownerReferences":[]}',
        f'{{"annotations":{{}},"labels":{{"{TEAM}":"shop"}},"ownerReferences":[]}}',
        f'{{"annotations":{{"{TICKET}":"7"}},"labels":{{"{TEAM}":"shop"}},"ownerReferences":[]}}',
    ]


async def test_parts_when_changed_while_no_watcher_ran_then_the_next_list_shows_them(
    rig: Rig, kube: KubeClient, tenant: Tenant
) -> None:
    await tenant.create_any(REVIEW, "monday", spec=SPEC)
    async with rig.watcher(followed(REVIEWS)):
        await rig.commands.until("it was sent", lambda sent: len(of_monday(sent, tenant)) == 1)
    await written_status(kube, tenant, REVIEWER, verdict=YES)
    async with rig.watcher(followed(REVIEWS)):
        await rig.commands.until("the answer was sent", lambda sent: len(of_monday(sent, tenant)) == 2)
    assert of_monday(rig.commands.sent, tenant)[-1][1] == '{"verdict":{"outcome":"yes"}}'

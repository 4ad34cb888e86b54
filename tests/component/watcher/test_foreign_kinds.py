"""Kinds of other services, on a real API server: their definitions come late, or never, and nothing waits for them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from devstack.components.steps import FOREIGN_CRDS
from services.cli.installation import crds
from services.common.kubernetes import ApiResource, KubeClient, NotFound
from services.common.messages import ResyncCompleted
from services.kinds.registry import REGISTRY, Registry
from services.kinds.shared.kind import ForeignKind
from services.kinds.shared.projection import Projection
from services.watcher.commands import follow_session
from services.watcher.followed_kinds import CUSTOM_KINDS, followed
from tests.component.watcher.rig import USER, Rig, Sent, Tenant
from tests.component.watcher.test_commands_sent import changed

GUEST = ApiResource("guests.example.com", "v1", "Guest", "guests")
GUESTS = Registry(
    (
        ForeignKind(
            resource=GUEST,
            default_quota=1,
            purpose="a kind of a test",
            projection=Projection(spec_members=frozenset({"host"}), status_members=frozenset({"phase"})),
        ),
    )
)
DEFINITIONS = ApiResource("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions")


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow_session, "MISSING_SECONDS", 0.2)


@pytest.fixture
async def definition(kube: KubeClient, tmp_path: Path) -> AsyncIterator[Path]:
    """As the local stack defines such kinds; nobody has applied it yet."""
    manifest: Any = next(yaml.safe_load_all(FOREIGN_CRDS.read_text()))
    names = {"kind": GUEST.kind, "listKind": "GuestList", "plural": GUEST.plural, "singular": "guest"}
    manifest["metadata"]["name"] = f"{GUEST.plural}.{GUEST.group}"
    manifest["spec"] |= {"group": GUEST.group, "names": names}
    manifest["spec"]["versions"][0]["name"] = GUEST.version
    path = tmp_path / "guests.yaml"
    path.write_text(yaml.safe_dump(manifest))
    yield path
    with suppress(NotFound):
        await kube.delete_object(DEFINITIONS, None, manifest["metadata"]["name"])


def lists(sent: list[Sent]) -> set[int]:
    """Epochs of complete lists of the kind."""
    return {
        item.event.epoch for item in sent if isinstance(item.event, ResyncCompleted) and item.event.kind == GUEST.kind
    }


async def test_kind_when_its_definition_comes_late_then_the_watcher_is_ready_before_and_sends_its_resources_after(
    rig: Rig, kube: KubeClient, tenant: Tenant, definition: Path, kubeconfig: Path
) -> None:
    async with rig.watcher((*CUSTOM_KINDS, *followed(GUESTS))):
        await rig.commands.until("an empty list was sent", lists)
        await tenant.create("web")
        await rig.commands.until("others go on", lambda sent: changed(sent, tenant.namespace, "web"))
        await asyncio.to_thread(crds.apply, kubeconfig, [definition])
        await tenant.create_any(GUEST, "ada", spec={"host": "web", "key": "secret"})
        await rig.commands.until("it was sent", lambda sent: changed(sent, tenant.namespace, "ada"))
        await kube.patch_object(
            GUEST, tenant.namespace, "ada", {"status": {"phase": "in"}}, field_manager=USER, subresource="status"
        )
        await rig.commands.until("its status was sent", lambda sent: changed(sent, tenant.namespace, "ada")[1:])
    events = [item.event for item in changed(rig.commands.sent, tenant.namespace, "ada")]
    assert [(event.spec, event.status) for event in events] == [
        ('{"host":"web"}', "{}"),
        ('{"host":"web"}', '{"phase":"in"}'),
    ]


async def test_kind_when_its_definition_goes_then_a_complete_list_says_that_there_are_no_such_resources(
    rig: Rig, kube: KubeClient, tenant: Tenant, definition: Path, kubeconfig: Path
) -> None:
    await asyncio.to_thread(crds.apply, kubeconfig, [definition])
    await tenant.create_any(GUEST, "ada", spec={"host": "web"})
    async with rig.watcher(followed(GUESTS)):
        await rig.commands.until("it was sent", lambda sent: changed(sent, tenant.namespace, "ada"))
        before = lists(rig.commands.sent)
        await kube.delete_object(DEFINITIONS, None, f"{GUEST.plural}.{GUEST.group}")
        await rig.commands.until("an empty list was sent", lambda sent: lists(sent) - before)


def test_definitions_of_the_local_stack_when_read_then_they_are_those_of_the_foreign_kinds() -> None:
    found = set()
    for manifest in yaml.safe_load_all(FOREIGN_CRDS.read_text()):
        spec, names = manifest["spec"], manifest["spec"]["names"]
        found |= {ApiResource(spec["group"], each["name"], names["kind"], names["plural"]) for each in spec["versions"]}
    assert found == {kind.resource for kind in REGISTRY.foreign}

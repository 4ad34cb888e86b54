"""Secrets that are not followed, and whose content somebody copies: what names one is sent again when it changes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from services.common.kubernetes import KubeClient
from services.common.messages import ResourceChanged
from services.kinds.secret.rules import TOO_LARGE
from services.kinds.shared.resource import SECRET_ABSENT
from services.watcher.commands.target_classes import TargetClasses
from services.watcher.commands.unfollowed_secrets import follow_unfollowed
from services.watcher.followed_kinds import BY_NAME
from tests.unit.common.kubernetes.fake_api_server import FakeApiServer, serving
from tests.unit.watcher.commands.test_feed import MAX_SECRET_BYTES, feed_of, put, running, until
from tests.unit.watcher.fakes import FakePublisher

TARGETS = BY_NAME["DeploymentTarget"]
SPEC = {"deploymentTargetClassName": "space", "kubernetesCredentials": {"clusterCredentialsSecret": "login"}}
PATH = "/api/v1/namespaces/team-a/secrets/login"


class Workspace:
    """Targets at one API server, where single Secrets are read, too, and a watch of Secrets at another."""

    def __init__(self, targets: FakeApiServer, publisher: FakePublisher) -> None:
        self.targets, self.secrets, self.publisher = targets, FakeApiServer(), publisher

    async def write_secret(self, **data: str) -> str:
        """Returns its version."""
        meta = {"name": "login", "uid": "uid-login", "namespace": "team-a"}
        await self.secrets.put("login", metadata=meta, type="Opaque")
        metadata = self.secrets.objects["login"]["metadata"]
        self.targets.others[PATH] = {"metadata": metadata, "type": "Opaque", "data": data}
        return str(self.secrets.version)

    async def delete_secret(self) -> None:
        del self.targets.others[PATH]
        await self.secrets.delete("login")

    def told(self) -> list[tuple[str, str]]:
        """What each command says of the Secret."""
        changes = [each for each in self.publisher.events if isinstance(each, ResourceChanged)]
        return [(each.secret_type, each.secret_version) for each in changes]


@asynccontextmanager
async def followed(workspace: Workspace, kube: KubeClient, **parts: Any) -> AsyncIterator[None]:
    async with serving(workspace.secrets) as secrets, serving(FakeApiServer()) as classes_server:
        classes = TargetClasses(classes_server)
        feed = feed_of(TARGETS, kube, workspace.publisher, classes=classes, **parts)
        steps = [classes.run(), follow_unfollowed(secrets, [feed.observe_unfollowed])]
        following = [asyncio.ensure_future(step) for step in steps]
        try:
            async with running(feed):
                await until(lambda: bool(workspace.secrets.watched_from))
                yield
        finally:
            for task in following:
                task.cancel()
            await asyncio.wait(following)


async def test_secret_when_it_comes_changes_and_goes_then_the_target_that_names_it_is_sent_with_its_version(
    server: FakeApiServer, kube: KubeClient, publisher: FakePublisher
) -> None:
    workspace = Workspace(server, publisher)
    await put(server, "space-1", spec=SPEC)
    async with followed(workspace, kube):
        expected = [("", SECRET_ABSENT)]
        await until(lambda: workspace.told() == expected)
        for _ in range(2):
            expected.append(("Opaque", await workspace.write_secret()))
            await until(lambda: workspace.told() == expected)
        await workspace.delete_secret()
        await until(lambda: workspace.told() == [*expected, ("", SECRET_ABSENT)])
    assert all(workspace.secrets.partial), "no content is watched"
    assert {each["limit"] for each in workspace.secrets.lists} == {"1"}, "and nothing is listed"


async def test_secret_when_it_is_too_large_to_be_copied_then_that_is_told_once_for_each_version(
    server: FakeApiServer, kube: KubeClient, publisher: FakePublisher
) -> None:
    workspace = Workspace(server, publisher)
    first = await workspace.write_secret(kubeconfig="a" * MAX_SECRET_BYTES)
    await put(server, "space-1", spec=SPEC)
    async with followed(workspace, kube, recheck_seconds=0.01):
        await until(lambda: server.gets.count(PATH) > 5)
        assert workspace.told() == [(TOO_LARGE, first)], "it is read again and again, and is as it was told"
        second = await workspace.write_secret(kubeconfig="a")
        await until(lambda: workspace.told() == [(TOO_LARGE, first), ("Opaque", second)])


async def test_secret_when_its_change_was_missed_then_it_is_found_when_it_is_read_again(
    server: FakeApiServer, kube: KubeClient, publisher: FakePublisher
) -> None:
    workspace = Workspace(server, publisher)
    first = await workspace.write_secret()
    await put(server, "space-1", spec=SPEC)
    async with followed(workspace, kube, recheck_seconds=0.01):
        await until(lambda: workspace.told() == [("Opaque", first)])
        meta = server.others[PATH]["metadata"] | {"resourceVersion": "999"}
        server.others[PATH] = {"metadata": meta, "type": "Opaque"}
        await until(lambda: workspace.told() == [("Opaque", first), ("Opaque", "999")])

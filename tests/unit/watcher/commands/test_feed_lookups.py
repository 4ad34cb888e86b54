"""What a feed reads when a command goes out: contents, types of Secrets, deployments of sync runs."""

from __future__ import annotations

import asyncio
import base64
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from services.common.kubernetes import SECRET, Changed, Deleted, KubeClient, Reflection, Rejected, Seen
from services.common.messages import ResourceChanged
from services.common.sealing import (
    OpeningKeys,
    SealingKeys,
    SecretContext,
    UseRefused,
    generate_key,
    write_keys,
)
from services.common.secret_use import SecretUse
from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT
from services.kinds.registry import REGISTRY
from services.kinds.shared.secret_binding import binding_of
from services.watcher.commands.command_sender import LOOKUPS
from services.watcher.commands.feed import Feed
from services.watcher.commands.throttling import RateLimiter, ReservedBytes
from services.watcher.commands.translation import Translator
from services.watcher.followed_kinds import CUSTOM_KINDS, SECRETS
from tests.unit.common.kubernetes.fake_api_server import FakeApiServer, Fault, answers, misses
from tests.unit.watcher.commands.sealers import placed, sealer_of
from tests.unit.watcher.commands.test_feed import (
    DEADLINE_SECONDS,
    PARTITIONS,
    epochs,
    feed_of,
    put,
    running,
    told,
    until,
)
from tests.unit.watcher.fakes import FakePublisher

DEPLOYMENTS, ENVIRONMENTS, _, SYNC_RUNS, *_ = CUSTOM_KINDS
TYPE, CREDENTIAL_TYPE = REGISTRY.secret_types
CONTENT = "PLANTED-CONTENT"


def changes(publisher: FakePublisher) -> list[ResourceChanged]:
    return [event for event in publisher.events if isinstance(event, ResourceChanged)]


def sealing() -> Translator:
    """Says of a Secret what it holds; that it is sealed is shown elsewhere."""
    return Translator("local", SECRET, lambda manifest, _: (orjson.dumps(manifest["data"]).decode(), ""))


def secret_feed(kube: KubeClient, publisher: FakePublisher, **parts: Any) -> Feed:
    feed = feed_of(SECRETS, kube, publisher, translate=sealing(), **parts)
    return Feed(replace(feed.parts, observe=feed.parts.types.observe_event), feed.delays)


async def put_secret(server: FakeApiServer, name: str, content: str = CONTENT) -> None:
    await put(server, name, type=TYPE, data={"kubeconfig": content})


async def test_secrets_when_followed_then_only_metadata_is_asked_for_and_content_read_when_it_is_sent(
    server: FakeApiServer, kube: KubeClient, publisher: FakePublisher
) -> None:
    await put_secret(server, "listed")
    feed = secret_feed(kube, publisher)
    async with running(feed):
        await until(lambda: feed.listed)
        await put_secret(server, "changed")
        await until(lambda: ("changed", "changed") in told(publisher))
    assert server.partial
    assert all(server.partial)
    assert [orjson.loads(event.spec) for event in changes(publisher)] == [{"kubeconfig": CONTENT}] * 2


async def test_secrets_when_many_wait_then_nothing_of_their_content_is_held(
    server: FakeApiServer, kube: KubeClient, publisher: FakePublisher
) -> None:
    feed = secret_feed(kube, publisher, limiter=RateLimiter(0.001, 1))
    async with running(feed):
        await until(lambda: feed.listed)
        for number in range(20):
            await put_secret(server, f"secret-{number}", CONTENT * 1000)
        await until(lambda: len(changes(publisher)) == 1)
        assert len(server.gets) == 1, "those that wait have not been read"


async def test_secret_when_it_is_gone_by_its_turn_then_the_list_is_complete_without_it(
    server: FakeApiServer, kube: KubeClient, publisher: FakePublisher
) -> None:
    for name in ("a", "b"):
        await put_secret(server, name)
    server.get_faults.append(misses("secrets", "a"))
    feed = secret_feed(kube, publisher)
    async with running(feed):
        await until(lambda: feed.listed)
    assert told(publisher) == [("b", "changed")]


async def test_secret_when_it_cannot_be_read_for_a_moment_then_it_is_waited_for_and_not_swept(
    server: FakeApiServer, kube: KubeClient, publisher: FakePublisher
) -> None:
    await put_secret(server, "a")
    server.get_faults.extend([answers(403, "Forbidden"), answers(404, "NotFound", "no such kind"), answers(500)])
    feed = secret_feed(kube, publisher)
    async with running(feed):
        await until(lambda: feed.listed)
    assert told(publisher) == [("a", "changed")]


async def test_contents_when_there_is_no_room_for_them_then_they_are_read_when_their_turn_comes(
    server: FakeApiServer, kube: KubeClient, publisher: FakePublisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        ReservedBytes.__init__, "__defaults__", (1, 1, *(ReservedBytes.__init__.__defaults__ or ())[2:])
    )
    for name in ("a", "b"):
        await put(server, name, generation=3)
    feed = feed_of(DEPLOYMENTS, kube, publisher)
    async with running(feed):
        await until(lambda: feed.listed)
    assert [(event.name, event.generation) for event in changes(publisher)] == [("a", 3), ("b", 3)]
    assert len(server.gets) == 2
    assert len({event.epoch for event in changes(publisher)} | set(epochs(publisher))) == 1


def environment(number: int = 0) -> dict[str, Any]:
    return {"credentialsSecret": f"secret-{number}"}


def place(name: str, plural: str = "secrets", namespace: str = "team-a") -> str:
    return (GITOPS_DEPLOYMENT if plural != "secrets" else SECRET).path(namespace, name)


async def test_environments_when_many_are_listed_then_their_secrets_are_asked_for_several_at_a_time_in_order(
    server: FakeApiServer, kube: KubeClient, publisher: FakePublisher
) -> None:
    for number in range(100):
        await put(server, f"env-{number}", spec=environment(number))
        server.others[place(f"secret-{number}")] = {"metadata": {"resourceVersion": "1"}, "type": f"type-{number}"}
    server.get_seconds = 0.005
    feed = feed_of(ENVIRONMENTS, kube, publisher)
    async with running(feed):
        await until(lambda: feed.listed)
    assert [(event.name, event.secret_type) for event in changes(publisher)] == [
        (f"env-{number}", f"type-{number}") for number in range(100)
    ]
    assert 1 < server.most_getting <= LOOKUPS + 2
    assert len(server.gets) == 100


async def test_environments_when_their_secrets_are_followed_then_nobody_is_asked(
    server: FakeApiServer, kube: KubeClient, publisher: FakePublisher
) -> None:
    for number in range(5):
        await put(server, f"env-{number}", spec=environment(0))
    feed = feed_of(ENVIRONMENTS, kube, publisher)
    meta = {"name": "secret-0", "namespace": "team-a", "uid": "uid-secret", "resourceVersion": "1"}
    feed.parts.types.observe_event(Seen({"metadata": meta}, f"type={TYPE}"))
    async with running(feed):
        await until(lambda: feed.listed)
    assert [event.secret_type for event in changes(publisher)] == [TYPE] * 5
    assert server.gets == []


REPOSITORY_CREDENTIALS = CUSTOM_KINDS[2]
LOGIN = {"repository": "https://git.example.com/a.git", "secret": "login"}
USE = SecretUse("https://git.example.com/a")


class Sealed:
    """A feed of credentials whose Secret is a followed one, and the keys that open what it sends."""

    def __init__(self, folder: Path, server: FakeApiServer, kube: KubeClient, publisher: FakePublisher) -> None:
        key = generate_key()
        write_keys(folder / "private", {str(key.kid): key}, private=True)
        write_keys(folder / "public", {str(key.kid): key}, private=False)
        self.opening, self.sealing = OpeningKeys.load(folder / "private"), SealingKeys.load(folder / "public")
        self._server, self._publisher = server, publisher
        self.feed = feed_of(REPOSITORY_CREDENTIALS, kube, publisher, sealer=sealer_of(self.sealing))

    def put_secret(self, version: int, content: str = "", *, seen: bool = True) -> None:
        """The Secret is so at the API server; ``seen``: by the watch of Secrets, too."""
        meta = {"name": "login", "namespace": "team-a", "uid": "uid-secret", "resourceVersion": str(version)}
        data = {"password": base64.b64encode((content or f"word-{version}").encode()).decode()}
        manifest = {"metadata": meta, "type": CREDENTIAL_TYPE, "data": data}
        self._server.others[place("login")] = manifest
        if seen:
            self.see(Changed(manifest, f"type={CREDENTIAL_TYPE}"))

    def see(self, event: Reflection) -> None:
        self.feed.parts.types.observe_event(event)
        self.feed.observe_secret(event)

    def sent(self) -> list[tuple[str, str]]:
        """Of each command: the resource and the version of the Secret that its binding is of."""
        bindings = [(event.name, binding_of(event.secret_binding)) for event in changes(self._publisher)]
        return [(name, binding.version if binding else "") for name, binding in bindings]


@pytest.fixture
def sealed(tmp_path: Path, server: FakeApiServer, kube: KubeClient, publisher: FakePublisher) -> Sealed:
    return Sealed(tmp_path, server, kube, publisher)


async def test_credential_when_sent_then_what_its_secret_is_for_goes_with_it_and_opens_it_for_nothing_else(
    sealed: Sealed, server: FakeApiServer, publisher: FakePublisher
) -> None:
    await put(server, "git", spec=LOGIN)
    sealed.put_secret(1)
    async with running(sealed.feed):
        await until(lambda: sealed.feed.listed)
    (event,) = changes(publisher)
    binding = binding_of(event.secret_binding)
    assert binding is not None
    assert binding.subject == ("uid-secret", "1", USE.digest)
    uid = publisher.commands[0].namespace_uid
    context = SecretContext("local", "team-a", "login", CREDENTIAL_TYPE, uid)
    text = sealed.sealing.seal_secret(server.others[place("login")]["data"], context)
    assert sealed.opening.open_secret_for(USE, text, binding.sealed, context) == {"password": b"word-1"}
    with pytest.raises(UseRefused):
        sealed.opening.open_secret_for(SecretUse("https://other.example.com"), text, binding.sealed, context)


async def test_secret_when_it_changes_then_each_resource_that_names_it_is_sent_again_at_once_and_no_other(
    sealed: Sealed, server: FakeApiServer
) -> None:
    await put(server, "git", spec=LOGIN)
    await put(server, "twin", spec=LOGIN)
    await put(server, "other", spec=LOGIN | {"secret": "none"})
    sealed.put_secret(1)
    async with running(sealed.feed):
        await until(lambda: sealed.feed.listed)
        sealed.put_secret(2)
        await until(lambda: len(sealed.sent()) == 5)
        sealed.put_secret(2)
        sealed.see(Deleted(server.others.pop(place("login"))))
        await until(lambda: len(sealed.sent()) == 7)
    sent = sealed.sent()
    assert sorted(sent[:3]) == [("git", "1"), ("other", ""), ("twin", "1")]
    assert sorted(sent[3:5]) == [("git", "2"), ("twin", "2")]
    assert sorted(sent[5:]) == [("git", ""), ("twin", "")]


async def test_secret_when_it_changes_while_its_resource_is_being_sent_then_that_is_sent_again(
    sealed: Sealed, server: FakeApiServer
) -> None:
    sealed.put_secret(1)
    async with running(sealed.feed):
        await until(lambda: sealed.feed.listed)
        server.get_seconds = 0.05
        asked = len(server.gets)
        await put(server, "git", spec=LOGIN)
        await until(lambda: any(place("login") in get for get in server.gets[asked:]))
        sealed.put_secret(2)
        await until(lambda: ("git", "2") in sealed.sent())


async def test_credential_when_its_secret_is_too_large_or_its_spec_no_spec_then_no_binding_is_made_and_it_is_sent_once(
    sealed: Sealed, server: FakeApiServer
) -> None:
    await put(server, "git", spec=LOGIN)
    await put(server, "bad", spec={"repository": 1, "secret": "login"})
    sealed.put_secret(1, "x" * 2000)
    async with running(sealed.feed):
        await until(lambda: sealed.feed.listed)
        sealed.put_secret(2, "x" * 2000)
        await until(lambda: len(sealed.sent()) == 4)
        sealed.put_secret(2, "x" * 2000)
        await put(server, "last", spec=LOGIN)
        await until(lambda: ("last", "") in sealed.sent())
    assert sealed.sent()[:4] == [("git", ""), ("bad", "")] * 2
    assert len(sealed.sent()) == 5


async def test_credential_when_its_tenant_comes_to_other_clusters_then_it_is_sent_again_for_their_agents(
    sealed: Sealed, server: FakeApiServer, publisher: FakePublisher, tmp_path: Path
) -> None:
    keys = {cluster: generate_key(cluster) for cluster in ("south", "north")}
    write_keys(tmp_path / "public", {str(key.kid): key for key in keys.values()}, private=False)
    tenants = sealed.feed.parts.sealer.tenants  # type: ignore[union-attr]
    tenants.observers.append(sealed.feed.observe_tenant)
    await put(server, "git", spec=LOGIN)
    sealed.put_secret(1)

    def sent_under() -> list[set[str]]:
        bindings = [binding_of(event.secret_binding) for event in changes(publisher)]
        return [set(binding.key_id.split(",")) if binding else set() for binding in bindings]

    async with running(sealed.feed):
        await until(lambda: server.namespace_gets != [])
        assert publisher.commands == [], "nobody knows yet where any tenant is"
        tenants.take_in([])
        await until(lambda: sent_under() == [set()])
        uid = publisher.commands[0].namespace_uid
        for clusters in ("south", "north,south", "north,south", "north"):
            tenants.take_in([placed("east", "team-b"), placed(clusters, uid=uid)])
            wanted = {str(keys[each].kid) for each in clusters.split(",")}
            await until(lambda wanted=wanted: sent_under()[-1] == wanted)  # type: ignore[misc]
    assert len(sent_under()) == 4


async def test_sync_run_when_sent_then_the_generation_of_its_deployment_goes_with_it(
    server: FakeApiServer, kube: KubeClient, publisher: FakePublisher
) -> None:
    server.others[place("web", "gitopsdeployments")] = {"metadata": {"name": "web", "uid": "uid-web", "generation": 7}}
    feed = feed_of(SYNC_RUNS, kube, publisher)
    async with running(feed):
        await until(lambda: feed.listed)
        for name, spec in {
            "run": {"gitopsDeploymentName": "web"},
            "lost": {"gitopsDeploymentName": "none"},
            "bare": {},
        }.items():
            await put(server, name, spec=spec)
        await until(lambda: len(changes(publisher)) == 3)
    assert {event.name: (event.target_uid, event.target_generation) for event in changes(publisher)} == {
        "run": ("uid-web", 7),
        "lost": ("", 0),
        "bare": ("", 0),
    }


async def put_run(server: FakeApiServer) -> None:
    web = {"metadata": {"name": "web", "uid": "uid-web", "generation": 7}}
    server.others[place("web", "gitopsdeployments")] = web
    await put(server, "run", spec={"gitopsDeploymentName": "web"})


@pytest.mark.parametrize(
    "refusal",
    [answers(403, "Forbidden"), answers(404, "NotFound", "the server could not find the requested resource")],
    ids=["forbidden", "not-served"],
)
async def test_sync_run_when_its_deployment_cannot_be_read_for_a_moment_then_it_does_not_lose_it(
    server: FakeApiServer, kube: KubeClient, publisher: FakePublisher, refusal: Fault
) -> None:
    await put_run(server)
    server.get_faults.append(refusal)
    feed = feed_of(SYNC_RUNS, kube, publisher)
    async with running(feed):
        await until(lambda: feed.listed)
    assert [(event.name, event.target_uid) for event in changes(publisher)] == [("run", "uid-web")]


async def test_sync_run_when_its_deployment_may_not_be_read_for_long_then_that_is_said_and_the_run_is_not_told(
    server: FakeApiServer, kube: KubeClient, publisher: FakePublisher
) -> None:
    await put_run(server)
    server.get_faults.extend(answers(403, "Forbidden", "may not get gitopsdeployments") for _ in range(1000))
    with pytest.raises(Rejected, match="may not get gitopsdeployments"):
        async with asyncio.timeout(DEADLINE_SECONDS):
            await feed_of(SYNC_RUNS, kube, publisher).run()
    assert changes(publisher) == []


async def test_environment_when_a_secret_of_another_type_comes_later_and_goes_then_it_is_told_again_each_time(
    server: FakeApiServer, kube: KubeClient, publisher: FakePublisher
) -> None:
    await put(server, "env", spec=environment())
    await put(server, "other", spec=environment(1))
    feed = feed_of(ENVIRONMENTS, kube, publisher, recheck_seconds=0.005)
    async with running(feed):
        await until(lambda: feed.listed)
        server.others[place("secret-0")] = {"metadata": {"resourceVersion": "1"}, "type": "Opaque"}
        await until(lambda: len(changes(publisher)) == 3)
        del server.others[place("secret-0")]
        await until(lambda: len(changes(publisher)) == 4)
        asked = len(server.gets)
        await until(lambda: len(server.gets) > asked + 10)
    assert [(event.name, event.secret_type) for event in changes(publisher)] == [
        ("env", ""),
        ("other", ""),
        ("env", "Opaque"),
        ("env", ""),
    ]
    assert len({(event.resource_version, event.epoch) for event in changes(publisher) if event.name == "env"}) == 1
    assert len(epochs(publisher)) == PARTITIONS

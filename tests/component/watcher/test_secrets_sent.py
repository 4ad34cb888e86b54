"""Secrets on a real API server and a real broker: sealed in the log, and nowhere in clear."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import orjson
import pytest

from services.common.kubernetes import SECRET
from services.common.messages import ResourceChanged
from services.common.sealing import OpeningKeys, SecretContext
from services.common.secret_use import SecretUse
from services.kinds.managed_environment.model import MANAGED_ENVIRONMENT
from services.kinds.registry import REGISTRY
from services.kinds.repository_credential.model import REPOSITORY_CREDENTIAL
from services.kinds.shared.secret_binding import binding_of
from services.watcher.commands import secrets
from tests.component.watcher.conftest import PARTITIONS
from tests.component.watcher.rig import KeyFiles, Rig, Tenant
from tests.component.watcher.test_commands_sent import about, changed, gone, resyncs

ENVIRONMENT_TYPE, CREDENTIAL_TYPE = REGISTRY.secret_types
CONTENT = "PLANTED-CONTENT-OF-A-SECRET"
ENCODED = base64.b64encode(CONTENT.encode()).rstrip(b"=")[:-2]
"""As much of it as any encoding of something longer must contain."""


def opened(sent: Any, rig: Rig, tenant: Tenant, keys: KeyFiles) -> dict[str, bytes]:
    event, place = sent.event, (rig.settings.workspace, tenant.namespace)
    spec = orjson.loads(event.spec)
    context = SecretContext(*place, event.name, spec["type"], sent.command.namespace_uid)
    return OpeningKeys.load(keys.private).open_secret(spec["sealed"], context)


async def test_secrets_when_of_the_two_types_then_they_are_sent_sealed_and_others_never(
    rig: Rig, tenant: Tenant, keys: KeyFiles
) -> None:
    await tenant.create_secret("before", ENVIRONMENT_TYPE, kubeconfig=CONTENT)
    await tenant.create_secret("other", "Opaque", kubeconfig=CONTENT)
    async with rig.watcher():
        await tenant.create_secret("after", CREDENTIAL_TYPE, password=CONTENT, username="u")
        await rig.commands.until("after was sent", lambda sent: changed(sent, tenant.namespace, "after"))
        await tenant.kube.delete_object(SECRET, tenant.namespace, "before")
        await rig.commands.until("before's end was sent", lambda sent: gone(sent, tenant.namespace, "before"))
    sent = rig.commands.sent
    (before,), (after,) = (changed(sent, tenant.namespace, name) for name in ("before", "after"))
    assert opened(before, rig, tenant, keys) == {"kubeconfig": CONTENT.encode()}
    assert opened(after, rig, tenant, keys) == {"password": CONTENT.encode(), "username": b"u"}
    assert (after.event.kind, after.event.api_version, after.event.generation) == ("Secret", "v1", 0)
    assert after.event.created_at > 0
    assert about(sent, tenant.namespace, "other") == []
    topic = await asyncio.to_thread(rig.commands.in_bytes)
    assert len(topic) > 1000
    assert CONTENT.encode() not in topic
    assert ENCODED not in topic


def lists_of_secrets(sent: Any) -> tuple[float, float]:
    """How often Secrets, and resources that name some, were listed to the end."""
    secrets, credentials = (len(resyncs(sent, kind)) for kind in ("Secret", REPOSITORY_CREDENTIAL.kind))
    return secrets / PARTITIONS, credentials / PARTITIONS


async def test_secrets_when_listed_then_both_types_are_one_epoch(rig: Rig, tenant: Tenant) -> None:
    for name, type_ in (("kube", ENVIRONMENT_TYPE), ("login", CREDENTIAL_TYPE)):
        await tenant.create_secret(name, type_, password=CONTENT)
    async with rig.watcher():
        await rig.commands.until("all markers", lambda sent: len(resyncs(sent, "Secret")) == PARTITIONS)
    listed = [item for item in rig.commands.sent if item.command.namespace == tenant.namespace]
    assert {item.event.name for item in listed} == {"kube", "login"}
    (epoch,) = {item.event.epoch for item in resyncs(rig.commands.sent, "Secret")}
    assert {item.event.epoch for item in listed} == {epoch}


async def test_secret_when_changed_then_it_is_sent_anew_though_it_has_no_generation(
    rig: Rig, tenant: Tenant, keys: KeyFiles
) -> None:
    await tenant.create_secret("kube", ENVIRONMENT_TYPE, kubeconfig="old")
    async with rig.watcher():
        await tenant.kube.patch_object(
            SECRET, tenant.namespace, "kube", {"stringData": {"kubeconfig": CONTENT}}, field_manager="a-user"
        )
        await rig.commands.until("the change was sent", lambda sent: len(changed(sent, tenant.namespace, "kube")) == 2)
    newest = changed(rig.commands.sent, tenant.namespace, "kube")[-1]
    assert opened(newest, rig, tenant, keys) == {"kubeconfig": CONTENT.encode()}


async def test_secret_when_larger_than_allowed_then_only_that_is_sent(rig: Rig, tenant: Tenant) -> None:
    await tenant.create_secret("kube", ENVIRONMENT_TYPE, kubeconfig=CONTENT * 100)
    async with rig.watcher(max_secret_bytes=1024):
        (sent,) = await rig.commands.until("it was sent", lambda sent: changed(sent, tenant.namespace, "kube"))
    assert sent.event.spec == "{}"
    assert "too large" in sent.event.spec_omitted


async def test_keys_when_rotated_then_all_secrets_are_sealed_anew_without_a_restart(
    rig: Rig, tenant: Tenant, keys: KeyFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(secrets, "ROTATION_SECONDS", 0.05)
    await tenant.create_secret("kube", ENVIRONMENT_TYPE, kubeconfig=CONTENT)
    async with rig.watcher():
        await rig.commands.until("first list", lambda sent: lists_of_secrets(sent) == (1, 1))
        await asyncio.to_thread(keys.renew)
        await rig.commands.until("what Secrets may be used for, too", lambda sent: lists_of_secrets(sent) == (2, 2))
    first, second = changed(rig.commands.sent, tenant.namespace, "kube")
    assert first.event.resource_version == second.event.resource_version
    assert first.event.epoch < second.event.epoch
    assert opened(second, rig, tenant, keys) == {"kubeconfig": CONTENT.encode()}
    assert len(resyncs(rig.commands.sent)) == PARTITIONS, "kinds that name no Secrets need no new list"


async def test_secret_when_changed_then_what_names_it_says_anew_what_it_may_be_used_for(
    rig: Rig, tenant: Tenant, keys: KeyFiles
) -> None:
    await tenant.create_secret("login", CREDENTIAL_TYPE, password=CONTENT)
    spec = {"repository": "https://example.com/a.git", "secret": "login"}
    await tenant.create_any(REPOSITORY_CREDENTIAL, "cred", spec=spec)

    def both(sent: Any, number: int) -> bool:
        """Whether the newest of both are of one version of the Secret, and the latter is the ``number``-th."""
        secrets, credentials = (changed(sent, tenant.namespace, name) for name in ("login", "cred"))
        if not secrets or len(credentials) != number:
            return False
        binding = binding_of(credentials[-1].event.secret_binding)
        return binding is not None and binding.version == secrets[-1].event.resource_version

    async with rig.watcher():
        await rig.commands.until("both were sent", lambda sent: both(sent, 1))
        await tenant.kube.patch_object(
            SECRET, tenant.namespace, "login", {"stringData": {"password": "new"}}, field_manager="a-user"
        )
        await rig.commands.until("both were sent again", lambda sent: both(sent, 2))
    sent = rig.commands.sent
    (secret, credential) = (changed(sent, tenant.namespace, name)[-1] for name in ("login", "cred"))
    content, binding = orjson.loads(secret.event.spec), binding_of(credential.event.secret_binding)
    context = SecretContext(
        rig.settings.workspace, tenant.namespace, "login", CREDENTIAL_TYPE, secret.command.namespace_uid
    )
    assert binding is not None
    values = OpeningKeys.load(keys.private).open_secret_for(
        SecretUse("https://example.com/a"), content["sealed"], binding.sealed, context
    )
    assert values == {"password": b"new"}


async def test_reference_when_its_secret_is_of_any_type_or_none_then_the_type_is_told(rig: Rig, tenant: Tenant) -> None:
    await tenant.create_secret("opaque", "Opaque", password=CONTENT)
    await tenant.create_secret("login", CREDENTIAL_TYPE, password=CONTENT)
    environment = {"apiURL": "https://example.com", "allowInsecureSkipTLSVerify": False}
    async with rig.watcher():
        for name in ("opaque", "none"):
            spec = environment | {"credentialsSecret": name}
            await tenant.create_any(MANAGED_ENVIRONMENT, f"env-{name}", spec=spec)
        spec = {"repository": "https://example.com/a.git", "secret": "login"}
        await tenant.create_any(REPOSITORY_CREDENTIAL, "cred", spec=spec)

        def types(sent: Any) -> dict[str, str]:
            names = ("env-opaque", "env-none", "cred")
            events = [item.event for name in names for item in changed(sent, tenant.namespace, name)]
            assert all(isinstance(event, ResourceChanged) for event in events)
            return {event.name: event.secret_type for event in events}

        await rig.commands.until("all were sent", lambda sent: len(types(sent)) == 3)
    assert types(rig.commands.sent) == {"env-opaque": "Opaque", "env-none": "", "cred": CREDENTIAL_TYPE}
    assert CONTENT.encode() not in await asyncio.to_thread(rig.commands.in_bytes)

"""Secrets leave the watcher sealed, or not at all, and nothing shows what they hold."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path
from typing import Any

import orjson
import pytest

from services.common.kubernetes import SECRET, Changed, Deleted, ListCompleted, ListStarted, Manifest, NotFound, Seen
from services.common.kubernetes.api_errors import Details
from services.common.messages import ResourceChanged
from services.common.sealing import OpeningKeys, SealingKeys, SecretContext, generate_key, key_id_of, write_keys
from services.common.secret_use import SecretUse
from services.watcher.commands import secrets
from services.watcher.commands.object_reader import ObjectReader
from services.watcher.commands.secrets import Sealer, SecretTypes
from services.watcher.commands.translation import Translator
from services.watcher.followed_kinds import SECRETS
from tests.unit.watcher.commands.sealers import placed, sealer_of
from tests.unit.watcher.manifests import NOW

DEADLINE_SECONDS = 10
TYPE = "managed-gitops.redhat.com/managed-environment"
CONTENT = "PLANTED-CONTENT"
ENCODED = base64.b64encode(CONTENT.encode()).decode()


def secret(data: Any = None, **meta: Any) -> Manifest:
    """As the API server shows it, with the annotation that kubectl leaves."""
    metadata = {
        "name": "kube",
        "namespace": "team-a",
        "uid": "uid-kube",
        "resourceVersion": "42",
        "annotations": {"kubectl.kubernetes.io/last-applied-configuration": CONTENT},
    }
    return {"type": TYPE, "data": {"kubeconfig": ENCODED} if data is None else data, "metadata": metadata | meta}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rotate(tmp_path)
    return tmp_path


def rotate(folder: Path) -> None:
    key = generate_key()
    write_keys(folder / "private", {str(key.kid): key}, private=True)
    write_keys(folder / "public", {str(key.kid): key}, private=False)


@pytest.fixture
def sealer(folder: Path) -> Sealer:
    return sealer_of(SealingKeys.load(folder / "public"))


def test_secret_when_sent_then_agents_can_open_it_and_the_command_shows_nothing(sealer: Sealer, folder: Path) -> None:
    owner = {"apiVersion": "appstudio.redhat.com/v1alpha1", "kind": "Environment", "name": "dev", "uid": "uid-dev"}
    translator = Translator("local", SECRET, sealer.sealed_content, SECRETS.projection)
    command = translator.changed(secret(ownerReferences=[owner]), 7, NOW)
    event: Any = command.event
    assert isinstance(event, ResourceChanged)
    spec = orjson.loads(event.spec)
    assert (event.kind, event.api_version, event.generation, event.spec_omitted) == ("Secret", "v1", 0, "")
    assert orjson.loads(event.metadata) == {"ownerReferences": [owner]}
    assert spec == {"type": TYPE, "sealed": spec["sealed"], "keyId": key_id_of(spec["sealed"]), "bound": True}
    opened = OpeningKeys.load(folder / "private").open_secret(
        spec["sealed"], SecretContext("local", "team-a", "kube", TYPE)
    )
    assert opened == {"kubeconfig": CONTENT.encode()}
    assert CONTENT not in repr(command)
    assert ENCODED not in repr(command)


@pytest.mark.parametrize("data", [{}, None], ids=["empty", "none"])
def test_secret_when_it_holds_nothing_then_that_is_sent(sealer: Sealer, folder: Path, data: Any) -> None:
    text, omitted = sealer.sealed_content(secret() | {"data": data}, "")
    assert omitted == ""
    context = SecretContext("local", "team-a", "kube", TYPE)
    assert OpeningKeys.load(folder / "private").open_secret(orjson.loads(text)["sealed"], context) == {}


def test_secret_when_too_large_then_only_its_size_is_told(sealer: Sealer) -> None:
    text, omitted = sealer.sealed_content(secret({"kubeconfig": ENCODED * 100}), "")
    assert text == "{}"
    assert omitted.startswith("the Secret is too large: ")
    assert ENCODED not in omitted


def test_state_version_when_the_secret_or_the_key_changed_then_it_is_another(sealer: Sealer, folder: Path) -> None:
    before = sealer.state_version(secret())
    assert sealer.state_version(secret()) == before
    assert sealer.state_version(secret(resourceVersion="43")) != before
    rotate(folder)
    assert sealer.state_version(secret()) != before


def test_secret_when_nobody_knows_where_its_tenant_is_then_it_is_sent_without_content_and_resources_get_no_binding(
    sealer: Sealer, folder: Path
) -> None:
    key = generate_key("north")
    write_keys(folder / "public", {str(key.kid): key}, private=False)
    assert sealer.sealed_content(secret(), "") == (
        orjson.dumps({"type": TYPE, "bound": True, "awaited": True}).decode(),
        "",
    )
    assert sealer.sealed_binding(secret(), SecretUse("https://git.example.com/a"), "") == ""
    subject = sealer.subject_of("team-a", "")
    assert sealer.key_ids_of(subject) == ""
    sealer.tenants.take_in([placed("north")])
    assert sealer.key_ids_of(subject) == key.kid
    assert orjson.loads(sealer.sealed_content(secret(), "")[0])["keyId"] == key.kid


async def test_rotation_when_the_key_file_changes_then_it_is_noticed(
    sealer: Sealer, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(secrets, "ROTATION_SECONDS", 0.001)
    waiting = asyncio.ensure_future(sealer.until_rotated())
    await asyncio.sleep(0)
    assert not waiting.done()
    rotate(folder)
    async with asyncio.timeout(DEADLINE_SECONDS):
        await waiting


class FakeKube:
    """Has this Secret."""

    def __init__(self, found: Manifest | None = None) -> None:
        self.found = found
        self.asked: list[str] = []

    async def get_object(self, _: Any, namespace: str, name: str) -> Manifest:
        self.asked.append(f"{namespace}/{name}")
        if self.found is None:
            raise NotFound(f'secrets "{name}" not found', Details("secrets", name))
        return self.found


def types_of(kube: Any) -> SecretTypes:
    return SecretTypes(ObjectReader(kube), max_bytes=1024)


@pytest.mark.parametrize(("found", "expected"), [(secret() | {"type": "Opaque"}, "Opaque"), (None, "")])
async def test_type_when_a_secret_is_not_followed_then_it_is_asked_for(found: Manifest | None, expected: str) -> None:
    kube = FakeKube(found)
    assert await types_of(kube).type_of("team-a", "kube") == expected
    assert kube.asked == ["team-a/kube"]


async def test_type_when_a_secret_is_followed_then_nobody_is_asked_until_it_is_gone() -> None:
    kube = FakeKube()
    types = types_of(kube)
    types.observe_event(Seen({"metadata": secret()["metadata"]}, f"type={TYPE}"))
    assert types.is_followed("team-a", "kube")
    assert await types.type_of("team-a", "kube") == TYPE
    assert kube.asked == []
    types.observe_event(Deleted(secret(uid="of-an-earlier-one")))
    assert types.is_followed("team-a", "kube"), "another Secret of that name has gone"
    types.observe_event(Deleted(secret()))
    assert not types.is_followed("team-a", "kube")
    assert await types.type_of("team-a", "kube") == ""


async def test_types_when_a_list_does_not_show_a_secret_then_it_is_not_known_any_more() -> None:
    types = types_of(FakeKube())
    for event in (Changed(secret(), f"type={TYPE}"), ListStarted(), ListCompleted(0)):
        types.observe_event(event)
    assert not types.is_followed("team-a", "kube")

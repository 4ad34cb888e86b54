"""Secrets leave the watcher sealed, or not at all, and nothing shows what they hold."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path
from typing import Any

import orjson
import pytest

from services.common.backoff import Backoff
from services.common.errors import GitOpsError, Retry
from services.common.kube import SECRET, Manifest, NotFound, Refused
from services.common.messages import ResourceChanged
from services.common.sealing import OpeningKeys, SealingKeys, SecretContext, generate_key, key_id_of, write_keys
from services.watcher import secrets
from services.watcher.commands import Translator
from services.watcher.secrets import Sealer, SecretTypes
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
    return Sealer(SealingKeys.load(folder / "public"), "local", 1024)


def test_secret_when_sent_then_agents_can_open_it_and_the_command_shows_nothing(sealer: Sealer, folder: Path) -> None:
    command = Translator("local", SECRET, sealer.content).changed(secret(), 7, NOW)
    event: Any = command.event
    assert isinstance(event, ResourceChanged)
    spec = orjson.loads(event.spec)
    assert (event.kind, event.api_version, event.generation, event.spec_omitted) == ("Secret", "v1", 0, "")
    assert spec == {"type": TYPE, "sealed": spec["sealed"], "keyId": key_id_of(spec["sealed"])}
    opened = OpeningKeys.load(folder / "private").open(spec["sealed"], SecretContext("local", "team-a", "kube", TYPE))
    assert opened == {"kubeconfig": CONTENT.encode()}
    assert CONTENT not in repr(command)
    assert ENCODED not in repr(command)


@pytest.mark.parametrize("data", [{}, None], ids=["empty", "none"])
def test_secret_when_it_holds_nothing_then_that_is_sent(sealer: Sealer, folder: Path, data: Any) -> None:
    text, omitted = sealer.content(secret() | {"data": data})
    assert omitted == ""
    context = SecretContext("local", "team-a", "kube", TYPE)
    assert OpeningKeys.load(folder / "private").open(orjson.loads(text)["sealed"], context) == {}


def test_secret_when_too_large_then_only_its_size_is_told(sealer: Sealer) -> None:
    text, omitted = sealer.content(secret({"kubeconfig": ENCODED * 100}))
    assert text == "{}"
    assert omitted.startswith("the Secret is too large: ")
    assert ENCODED not in omitted


def test_fingerprint_when_the_secret_or_the_key_changed_then_it_is_another(sealer: Sealer, folder: Path) -> None:
    before = sealer.fingerprint(secret())
    assert sealer.fingerprint(secret()) == before
    assert sealer.fingerprint(secret(resourceVersion="43")) != before
    rotate(folder)
    assert sealer.fingerprint(secret()) != before


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
    """Answers with these, one after the other."""

    def __init__(self, *answers: Manifest | GitOpsError) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, str]] = []

    async def get(self, _: Any, namespace: str, name: str) -> Manifest:
        self.asked.append((namespace, name))
        answer = self.answers.pop(0)
        if isinstance(answer, GitOpsError):
            raise answer
        return answer


TYPES: dict[str, tuple[Manifest | GitOpsError, str]] = {
    "there": (secret() | {"type": "Opaque"}, "Opaque"),
    "not-there": (NotFound("no"), ""),
    "refused": (Refused("forbidden", 403), ""),
}


@pytest.mark.parametrize(("answer", "expected"), TYPES.values(), ids=TYPES)
async def test_type_when_the_api_server_says_this_then_it_is_that(answer: Any, expected: str) -> None:
    kube: Any = FakeKube(answer)
    assert await SecretTypes(kube).type_of("team-a", "kube") == expected
    assert kube.asked == [("team-a", "kube")]


async def test_type_when_the_api_server_is_away_then_it_is_waited_for() -> None:
    kube: Any = FakeKube(Retry("away"), Retry("away"), secret())
    assert await SecretTypes(kube, Backoff(first=0.001)).type_of("team-a", "kube") == TYPE


@pytest.mark.parametrize("name", ["", "..", "../other", "a/b", "UPPER", "a?x=y", "a" * 254, "a\n"])
async def test_type_when_the_name_is_none_that_a_secret_can_have_then_nobody_is_asked(name: str) -> None:
    kube: Any = FakeKube()
    assert await SecretTypes(kube).type_of("team-a", name) == ""

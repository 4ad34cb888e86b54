"""``gitopsctl crds apply`` on a real API server: of several files, and where one of them cannot be served."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import yaml

from devstack.components.steps import FOREIGN_CRDS
from services.cli.installation import crds
from services.common.errors import Unavailable
from services.common.kubernetes import KubeClient, NotFound
from services.common.kubernetes.builtin_kinds import CUSTOM_RESOURCE_DEFINITION

KINDS = {"apples": "Apple", "pears": "Pear", "pommes": "Apple"}
"""By plural. An API server serves a kind under one plural: the first that it was told of."""


@pytest.fixture
def group() -> str:
    """Of one test: what another has deleted is served a while longer."""
    return f"test-{uuid4().hex}.example.com"


@pytest.fixture
async def files(kube: KubeClient, group: str, tmp_path: Path) -> AsyncIterator[Mapping[str, Path]]:
    """By plural, each defines a kind as the local stack defines those of others."""
    yield {plural: written(tmp_path, group, plural, kind) for plural, kind in KINDS.items()}
    for plural in KINDS:
        with suppress(NotFound):
            await kube.delete_object(CUSTOM_RESOURCE_DEFINITION, None, f"{plural}.{group}")


def written(folder: Path, group: str, plural: str, kind: str) -> Path:
    """A file with one definition."""
    manifest: Any = next(yaml.safe_load_all(FOREIGN_CRDS.read_text()))
    names = {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()}
    manifest["metadata"]["name"] = f"{plural}.{group}"
    manifest["spec"] |= {"group": group, "names": names}
    path = folder / f"{plural}.yaml"
    path.write_text(yaml.safe_dump(manifest))
    return path


async def test_apply_when_there_are_several_files_then_it_returns_once_each_is_served(
    files: Mapping[str, Path], group: str, kubeconfig: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    await asyncio.to_thread(crds.apply, kubeconfig, [files["apples"], files["pears"]])
    assert sorted(capsys.readouterr().out.splitlines()) == [f"apples.{group}: served", f"pears.{group}: served"]


async def test_apply_when_one_cannot_be_served_then_it_is_named_and_the_others_are_served(
    files: Mapping[str, Path],
    group: str,
    kubeconfig: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await asyncio.to_thread(crds.apply, kubeconfig, [files["apples"]])
    monkeypatch.setattr(crds, "ESTABLISH_SECONDS", 2.0)
    with pytest.raises(Unavailable, match=rf"^not served: pommes\.{group}: not established in time$"):
        await asyncio.to_thread(crds.apply, kubeconfig, [files["pommes"], files["pears"]])
    assert f"pears.{group}: served" in capsys.readouterr().out

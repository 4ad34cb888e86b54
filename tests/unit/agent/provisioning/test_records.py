"""Records: what of the cluster is read for one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import cast

from services.agent.provisioning.records import LABEL, NAME, Records, manifest_of
from services.agent.provisioning.waves import Record
from services.common.kubernetes import CONFIG_MAP, ApiResource, KubeClient
from services.common.kubernetes.client import Page
from tests.unit.agent.instances_of_fleet import instance_row
from tests.unit.fake_clock import EPOCH

ONE = instance_row("one", namespace="argocd-one", wanted_version="3.2.11")


async def test_record_when_read_then_nothing_is_but_the_one_object_of_its_name_in_its_namespace() -> None:
    record = Record("digest", EPOCH, ill="Degraded", is_proven=True)
    asked = []

    async def list_pages(resource: ApiResource, namespace: str, *, selector: str, fields: str) -> AsyncIterator[Page]:
        asked.append((resource, namespace, selector, fields))
        yield Page([manifest_of(ONE, record)], "1")

    cluster = cast("KubeClient", SimpleNamespace(list_pages=list_pages))
    assert await Records(cluster).read(ONE) == record
    assert asked == [(CONFIG_MAP, "argocd-one", f"{LABEL}=one", f"metadata.name={NAME}")]

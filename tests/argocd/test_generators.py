"""Repositories with kustomize and helm: what they are for, and what they are not given, on real Argo CD."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from services.common.kubernetes import Manifest
from tests.argocd.deployed import HEALTHY, Deployed
from tests.argocd.sources import NAME, Source, Sources, config_map
from tests.e2e.tenant import Tenant

CHART = {"apiVersion": "v2", "name": "chart", "version": "1.0.0"}
TEMPLATE = yaml.safe_dump(config_map("{{ .Values.value }}"))


def kustomization(**content: Any) -> dict[str, Any]:
    """An overlay of nothing but what its file says."""
    return {"app/kustomization.yaml": content}


def chart(**changes: Any) -> dict[str, Any]:
    """A chart of one config map."""
    return {
        "app/settings.yaml": None,
        "app/Chart.yaml": CHART | changes,
        "app/values.yaml": {"value": "from the chart"},
        "app/templates/settings.yaml": TEMPLATE,
    }


async def deploy(tenant: Tenant, source: Source, files: dict[str, Any]) -> Manifest:
    """Commit ``files``, then deploy the folder ``app``."""
    source.repository.commit(
        {path: item if item is None or isinstance(item, str) else yaml.safe_dump(item) for path, item in files.items()}
    )
    return await tenant.create(source=source.spec())


async def test_overlay_when_it_has_a_base_in_the_repository_then_it_is_deployed(
    tenant: Tenant, source: Sources, deployed: Deployed
) -> None:
    overlay = kustomization(resources=["../base"], patches=[{"path": "settings.yaml"}])
    base = {
        "base/kustomization.yaml": {"resources": ["settings.yaml"], "namePrefix": "our-"},
        "base/settings.yaml": config_map("of the base"),
    }
    overlay["app/settings.yaml"] = config_map("of the overlay", f"our-{NAME}")
    await deploy(tenant, source(), overlay | base)
    await tenant.until_status("deployed", **HEALTHY)
    assert deployed.value(tenant.namespace, f"our-{NAME}") == "of the overlay"


async def test_chart_when_it_has_another_in_the_repository_then_it_is_deployed(
    tenant: Tenant, source: Sources, deployed: Deployed
) -> None:
    dependency = {"name": "common", "version": "1.0.0", "repository": "file://../common"}
    common = {
        "common/Chart.yaml": CHART | {"name": "common"},
        "common/templates/settings.yaml": yaml.safe_dump(config_map("of the other", "common")),
    }
    await deploy(tenant, source(), chart(dependencies=[dependency]) | common)
    await tenant.until_status("deployed", **HEALTHY)
    assert deployed.value(tenant.namespace) == "from the chart"
    assert deployed.value(tenant.namespace, "common") == "of the other"


async def test_overlay_when_it_asks_for_the_repo_servers_environment_then_it_gets_nothing(
    tenant: Tenant, source: Sources, deployed: Deployed
) -> None:
    generator = [{"name": "stolen", "envs": ["names"], "options": {"disableNameSuffixHash": True}}]
    names = "REDIS_PASSWORD\nARGOCD_GIT_MODULES_ENABLED\nvalue=\n"
    await deploy(tenant, source(), kustomization(configMapGenerator=generator) | {"app/names": names})
    await tenant.until_status("deployed", **HEALTHY)
    stolen = deployed.config_maps.objects[tenant.namespace, "stolen"]["data"]
    assert stolen == {"REDIS_PASSWORD": "", "ARGOCD_GIT_MODULES_ENABLED": "", "value": ""}


@pytest.mark.parametrize("place", ["file:///etc/passwd", "https://charts.example.com/schema.json"])
async def test_chart_when_its_schema_names_a_file_then_nobody_reads_it(
    tenant: Tenant, source: Sources, deployed: Deployed, place: str
) -> None:
    await deploy(tenant, source(), chart() | {"app/values.schema.json": f'{{"$ref": "{place}"}}'})
    await tenant.until_status("deployed", **HEALTHY)
    assert deployed.value(tenant.namespace) == "from the chart"


async def test_repository_when_it_has_jsonnet_then_nobody_evaluates_it(
    tenant: Tenant, source: Sources, deployed: Deployed
) -> None:
    stolen = config_map("", "stolen") | {"data": {"value": "ENVIRONMENT"}}
    text = yaml.safe_dump(stolen, default_flow_style=True, width=10_000).replace(
        "ENVIRONMENT", "(importstr '/proc/self/environ')"
    )
    await deploy(tenant, source(), {"app/stolen.jsonnet": text})
    await tenant.until_status("deployed", **HEALTHY)
    assert deployed.value(tenant.namespace) == "first"
    assert deployed.value(tenant.namespace, "stolen") is None

"""``gitopsctl crds``: installs the custom resource definitions in a workspace cluster."""

from __future__ import annotations

import asyncio
from pathlib import Path

import typer
import yaml

from services.common.errors import GitOpsError, NoPermission, Unavailable
from services.common.kubernetes import Changed, KubeClient, Rejected, Seen, connect, reflect
from services.common.kubernetes.builtin_kinds import CUSTOM_RESOURCE_DEFINITION, Manifest
from services.common.package_data import CRDS

app = typer.Typer(help="Custom resource definitions.", no_args_is_help=True)

FIELD_MANAGER = "gitopsctl"
ESTABLISH_SECONDS = 30.0

KUBECONFIG = typer.Option(..., envvar="KUBECONFIG", help="Kubeconfig of the cluster.")
FOLDER = typer.Option(CRDS, "--from", help="Folder or file of CRD manifests.")


@app.command()
def apply(kubeconfig: Path = KUBECONFIG, source: Path = FOLDER) -> None:
    """Server-side apply the CRDs and wait until the API server serves them."""
    asyncio.run(_apply(kubeconfig, read_manifests(source)))


def read_manifests(source: Path) -> list[Manifest]:
    """All manifests of a file, or of a folder's files."""
    files = sorted(source.glob("*.yaml")) if source.is_dir() else [source]
    return [manifest for file in files for manifest in yaml.safe_load_all(file.read_text()) if manifest]


async def _apply(kubeconfig: Path, manifests: list[Manifest]) -> None:
    async with await connect(kubeconfig) as kube:
        for manifest in manifests:
            name = manifest["metadata"]["name"]
            try:
                await kube.apply_object(CUSTOM_RESOURCE_DEFINITION, manifest, field_manager=FIELD_MANAGER)
                async with asyncio.timeout(ESTABLISH_SECONDS):
                    await _established(kube, name)
            except Rejected as error:
                raise NoPermission(f"cannot apply {name}: {error}") from error
            except (GitOpsError, TimeoutError) as error:
                raise Unavailable(f"{name} is not served: {error or 'not established in time'}") from error
            typer.echo(f"{name}: served")


async def _established(kube: KubeClient, name: str) -> None:
    """Follow the CRDs until this one's condition Established is True."""
    async for event in reflect(kube, CUSTOM_RESOURCE_DEFINITION):
        match event:
            case Seen(definition) | Changed(definition) if definition["metadata"]["name"] == name:
                if _is_established(definition):
                    return
            case _:
                pass


def _is_established(definition: Manifest) -> bool:
    conditions = definition.get("status", {}).get("conditions") or []
    return any(item["type"] == "Established" and item["status"] == "True" for item in conditions)

"""``gitopsctl crds``: installs the custom resource definitions in a workspace cluster."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Set
from contextlib import aclosing
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
SOURCES = typer.Option([CRDS], "--from", help="Folder or file of CRD manifests; may be given several times.")


@app.command()
def apply(kubeconfig: Path = KUBECONFIG, sources: list[Path] = SOURCES) -> None:
    """Server-side apply the CRDs and wait until the API server serves them."""
    asyncio.run(_apply(kubeconfig, [manifest for source in sources for manifest in read_manifests(source)]))


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
            except Rejected as error:
                raise NoPermission(f"cannot apply {name}: {error}") from error
            except GitOpsError as error:
                raise Unavailable(f"cannot apply {name}: {error}") from error
        await _await_served(kube, {manifest["metadata"]["name"] for manifest in manifests})


async def _await_served(kube: KubeClient, names: Set[str]) -> None:
    """Tell of each as it is served. Raises Unavailable if one is not in time."""
    waited_for = set(names)
    try:
        async with asyncio.timeout(ESTABLISH_SECONDS), aclosing(_established(kube)) as established:
            while waited_for:
                name = await anext(established)
                if name in waited_for:
                    waited_for.remove(name)
                    typer.echo(f"{name}: served")
    except (GitOpsError, TimeoutError) as error:
        missing = ", ".join(sorted(waited_for))
        raise Unavailable(f"not served: {missing}: {str(error) or 'not established in time'}") from error


async def _established(kube: KubeClient) -> AsyncGenerator[str]:
    """Names of the CRDs whose condition Established is True; one may come several times."""
    async with aclosing(reflect(kube, CUSTOM_RESOURCE_DEFINITION)) as events:
        async for event in events:
            match event:
                case Seen(definition) | Changed(definition) if _is_established(definition):
                    yield definition["metadata"]["name"]
                case _:
                    pass


def _is_established(definition: Manifest) -> bool:
    conditions = definition.get("status", {}).get("conditions") or []
    return any(item["type"] == "Established" and item["status"] == "True" for item in conditions)

"""``gitopsctl rbac``: installs the service accounts of our services, what each of them may do, and what confines it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import typer

from services.cli.engine_namespaces import NAMESPACES, engine_namespaces
from services.cli.installation.crds import read_manifests
from services.common.errors import GitOpsError, NoPermission, Unavailable
from services.common.kubernetes import NAMESPACE, AlreadyExists, KubeClient, Rejected, connect
from services.common.kubernetes.builtin_kinds import ApiResource, Manifest
from services.common.package_data import RBAC

app = typer.Typer(help="Service accounts, and what they may do.", no_args_is_help=True)

FIELD_MANAGER = "gitopsctl"
GROUP = "rbac.authorization.k8s.io"
ADMISSION = "admissionregistration.k8s.io"
KINDS = {
    resource.kind: resource
    for resource in (
        ApiResource("", "v1", "ServiceAccount", "serviceaccounts"),
        ApiResource(GROUP, "v1", "ClusterRole", "clusterroles"),
        ApiResource(GROUP, "v1", "ClusterRoleBinding", "clusterrolebindings"),
        ApiResource(GROUP, "v1", "Role", "roles"),
        ApiResource(GROUP, "v1", "RoleBinding", "rolebindings"),
        ApiResource(ADMISSION, "v1", "ValidatingAdmissionPolicy", "validatingadmissionpolicies"),
        ApiResource(ADMISSION, "v1", "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings"),
    )
}
IN_EVERY_ENGINE_NAMESPACE = ("Role", "RoleBinding")
"""Unless they name a namespace."""

KUBECONFIG = typer.Option(..., envvar="KUBECONFIG", help="Kubeconfig of somebody who may grant these rights.")
SOURCES = typer.Option([RBAC], "--from", help="Folder or file of manifests; may be given several times.")


# A group even while it has a single command: `gitopsctl rbac apply`.
@app.callback()
def rbac() -> None:
    """Service accounts, and what they may do."""


@app.command()
def apply(kubeconfig: Path = KUBECONFIG, namespaces: str = NAMESPACES, sources: list[Path] = SOURCES) -> None:
    """Server-side apply the manifests; roles without a namespace in that of each engine instance."""
    engines = sorted(set(engine_namespaces(namespaces).values()))
    asyncio.run(_apply(kubeconfig, [manifest for source in sources for manifest in placed(source, engines)]))


def placed(source: Path, namespaces: Iterable[str]) -> Iterator[Manifest]:
    """The manifests of a file or folder; roles that name no namespace once for each of ``namespaces``."""
    for manifest in read_manifests(source):
        if manifest["kind"] in IN_EVERY_ENGINE_NAMESPACE and "namespace" not in manifest["metadata"]:
            for namespace in namespaces:
                yield manifest | {"metadata": manifest["metadata"] | {"namespace": namespace}}
        else:
            yield manifest


async def _apply(kubeconfig: Path, manifests: list[Manifest]) -> None:
    async with await connect(kubeconfig) as kube:
        for manifest in manifests:
            place = "/".join(filter(None, (manifest["metadata"].get("namespace"), manifest["metadata"]["name"])))
            try:
                await _ensure_namespace(kube, manifest)
                await kube.apply_object(KINDS[manifest["kind"]], manifest, field_manager=FIELD_MANAGER)
            except Rejected as error:
                raise NoPermission(f"cannot apply {manifest['kind']} {place}: {error}") from error
            except GitOpsError as error:
                raise Unavailable(f"cannot apply {manifest['kind']} {place}: {error}") from error
            typer.echo(f"{manifest['kind']} {place}")


async def _ensure_namespace(kube: KubeClient, manifest: Manifest) -> None:
    """The service accounts' own may be new; those of engine instances are made before."""
    if manifest["kind"] == "ServiceAccount":
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": manifest["metadata"]["namespace"]}}
        with suppress(AlreadyExists):
            await kube.create_object(NAMESPACE, namespace, field_manager=FIELD_MANAGER)

"""Argo CD as its tests see it: Applications made by hand, from local repositories, without any service of ours."""

from __future__ import annotations

import asyncio
import subprocess
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from devstack.components.stack import ENGINE_NAMESPACES
from devstack.git.repository import AUTHOR, BRANCH, Repository
from devstack.git.site import PUBLIC, GitSite
from devstack.harness.mirror import Mirror
from services.common.kubernetes import APP_PROJECT, APPLICATION, CONFIG_MAP, NAMESPACE, KubeClient, Manifest
from services.common.kubernetes.builtin_kinds import SECRET

USER = "laboratory"
ENGINE = ENGINE_NAMESPACES[0]
IN_CLUSTER = "https://kubernetes.default.svc"
FINALIZER = "resources-finalizer.argocd.argoproj.io"

NOT_OURS = (
    *("postgres", "database-roles", "database-upgrade", "engines-apply", "kafka", "topics-apply", "topics-acls"),
    *("registry", "schemas-apply", "connect", "connector-apply", "connector-keeper", "workspaces-add"),
    *("watcher", "planner", "agent-1", "agent-2"),
)
OPTIONS = ("--argocd", "--infra", *(argument for name in NOT_OURS for argument in ("--without", name)))
"""Of ``dev up``: Argo CD, what it deploys from and what it deploys to, nothing else."""

Holds = Callable[[Manifest], bool]


@dataclass(frozen=True)
class Laboratory:
    """Two clusters, git servers, and Argo CD between them."""

    kube: KubeClient
    remote: KubeClient
    site: GitSite
    applications: Mirror

    async def tenant(self, kube: KubeClient | None = None) -> str:
        """A new namespace, in its own cluster unless another is named."""
        name = f"tenant-{uuid.uuid4().hex[:8]}"
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        await (kube or self.kube).create_object(NAMESPACE, namespace, field_manager=USER)
        return name

    async def project(self, tenant: str, *, engine: str = ENGINE, server: str = IN_CLUSTER) -> str:
        """A project that may deploy to the tenant's namespace, and nowhere else; named as that."""
        spec = {"sourceRepos": ["*"], "destinations": [{"server": server, "namespace": tenant}]}
        project = _argocd("AppProject", tenant, engine, spec)
        await self.kube.create_object(APP_PROJECT, project, field_manager=USER)
        return tenant

    async def permit(self, project: str, *urls: str) -> None:
        """Change which repositories a project permits: these alone."""
        patch = {"spec": {"sourceRepos": list(urls)}}
        await self.kube.patch_object(APP_PROJECT, ENGINE, project, patch, field_manager=USER)

    def repository(self, visibility: str = PUBLIC, **files: str) -> tuple[Repository, str]:
        """A new repository with one commit, and the end of its address; by default it holds one config map."""
        name = f"repository-{uuid.uuid4().hex[:8]}"
        repository = self.site.create(name, visibility)
        repository.commit({f"{path}.yaml": text for path, text in (files or {"settings": config_map("first")}).items()})
        return repository, f"{visibility}/{name}.git"

    async def deploy(
        self,
        url: str,
        tenant: str,
        *,
        engine: str = ENGINE,
        server: str = IN_CLUSTER,
        project: str | None = None,
        automated: bool = True,
    ) -> str:
        """An Application; returns its name."""
        name = f"application-{uuid.uuid4().hex[:8]}"
        spec: dict[str, Any] = {
            "project": project or tenant,
            "source": {"repoURL": url, "path": ".", "targetRevision": "HEAD"},
            "destination": {"server": server, "namespace": tenant},
        }
        if automated:
            spec["syncPolicy"] = {"automated": {"prune": True, "selfHeal": True}}
        application = _argocd("Application", name, engine, spec, finalizers=[FINALIZER])
        await self.kube.create_object(APPLICATION, application, field_manager=USER)
        return name

    async def secret(self, kind: str, data: dict[str, str]) -> None:
        """A secret of Argo CD: ``repository`` or ``cluster``."""
        metadata = {
            "name": f"{kind}-{uuid.uuid4().hex[:8]}",
            "namespace": ENGINE,
            "labels": {"argocd.argoproj.io/secret-type": kind},
        }
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": data}
        await self.kube.create_object(SECRET, secret, field_manager=USER)

    async def configure(self, engine: str, data: dict[str, str | None]) -> None:
        """Change settings of an instance; None takes one away. Argo CD follows them."""
        await self.kube.patch_object(CONFIG_MAP, engine, "argocd-cm", {"data": data}, field_manager=USER)

    async def patch(self, name: str, patch: Manifest) -> None:
        """Change an Application."""
        await self.kube.patch_object(APPLICATION, ENGINE, name, patch, field_manager=USER)

    @asynccontextmanager
    async def ending(self, name: str) -> AsyncIterator[None]:
        """While the block runs, an Application's operation is told to end; again if that is overwritten."""

        async def insist() -> None:
            while True:
                await self.until(
                    name, "runs", lambda item: status(item).get("operationState", {}).get("phase") == "Running"
                )
                await self.patch(name, {"status": {"operationState": {"phase": "Terminating"}}})

        insisting = asyncio.create_task(insist())
        try:
            yield
        finally:
            insisting.cancel()
            await asyncio.gather(insisting, return_exceptions=True)

    async def delete(self, name: str, engine: str = ENGINE) -> None:
        """Delete an Application, with what it deployed."""
        await self.kube.delete_object(APPLICATION, engine, name)

    async def until(self, name: str, what: str, holds: Holds, engine: str = ENGINE) -> Manifest:
        """Wait until ``holds`` is true of an Application; returns it."""
        await self.applications.until(
            f"{name} {what}", lambda objects: (engine, name) in objects and holds(objects[engine, name])
        )
        return self.applications.objects[engine, name]

    async def until_healthy(self, name: str, engine: str = ENGINE) -> Manifest:
        """Wait until an Application is as its repository says."""
        return await self.until(name, "is synced and healthy", is_healthy, engine)

    async def until_gone(self, name: str, engine: str = ENGINE) -> None:
        """Wait until there is no such Application."""
        await self.applications.until(f"{name} is gone", lambda objects: (engine, name) not in objects)

    async def until_trouble(self, name: str, type_: str, text: str) -> None:
        """Wait until a condition of an Application tells of something."""
        await self.until(
            name,
            f"has {type_} with '{text}'",
            lambda item: any(
                found["type"] == type_ and text in found["message"] for found in status(item).get("conditions", [])
            ),
        )

    async def value_in(self, tenant: str, kube: KubeClient | None = None) -> str:
        """What the deployed config map says."""
        deployed = await (kube or self.kube).get_object(CONFIG_MAP, tenant, "settings")
        return str(deployed["data"]["value"])


def config_map(value: str) -> str:
    """A manifest for a repository."""
    return f"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: settings\ndata:\n  value: {value}\n"


def add_submodule(repository: Repository, url: str) -> None:
    """Commit a link to a commit of the repository at ``url``."""
    commit = repository.commit({".gitmodules": f'[submodule "other"]\n\tpath = other\n\turl = {url}\n'})
    link = f"commit refs/heads/{BRANCH}\ncommitter {AUTHOR} now\ndata 4\nlink\nfrom {commit}\nM 160000 {commit} other\n"
    importing = ["git", "-C", str(repository.path), "fast-import", "--quiet", "--date-format=now"]
    subprocess.run(importing, input=link.encode(), check=True)


def status(application: Manifest) -> dict[str, Any]:
    """Of an Application, which has none at first."""
    found: dict[str, Any] = application.get("status", {})
    return found


def is_healthy(application: Manifest) -> bool:
    """Whether it is as its repository says, and works."""
    found = status(application)
    return (found.get("sync", {}).get("status"), found.get("health", {}).get("status")) == ("Synced", "Healthy")


def _argocd(kind: str, name: str, namespace: str, spec: dict[str, Any], **metadata: Any) -> Manifest:
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace} | metadata,
        "spec": spec,
    }

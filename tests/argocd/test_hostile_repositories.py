"""What hostile repositories try with Argo CD, kustomize and helm, and who refuses it in which words.

All are deployed at once, by one tenant: none of them may disturb another either.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from devstack.git.repository import Content
from devstack.git.site import GitSite
from devstack.harness.mirror import Mirror
from services.common.kubernetes import KubeClient
from tests.argocd.sources import Source, config_map
from tests.e2e.tenant import Tenant, fresh_tenant

NOBODY = "https://charts.example.com"
CHART = {"apiVersion": "v2", "name": "chart", "version": "1.0.0"}
PLUGIN = {"apiVersion": "someone/v1", "kind": "Plugin", "metadata": {"name": "plugin"}}


@dataclass(frozen=True)
class Attempt:
    """A repository that reaches for more than it holds."""

    refusal: str
    """In the words of whoever refuses it."""
    files: Mapping[str, Any]
    source: Mapping[str, str] = field(default_factory=dict)
    """What the deployment says of it."""


def kustomize(refusal: str, more: Mapping[str, Any] | None = None, **content: Any) -> Attempt:
    """An overlay of nothing but what its file says."""
    return Attempt(refusal, {"app/kustomization.yaml": content} | dict(more or {}))


def helm(refusal: str, more: Mapping[str, Any] | None = None, **chart: Any) -> Attempt:
    """A chart of one config map; ``chart`` is what else its description says."""
    template = yaml.safe_dump(config_map("{{ .Values.value }}"))
    files = {
        "app/settings.yaml": None,
        "app/Chart.yaml": CHART | chart,
        "app/values.yaml": {"value": "from the chart"},
        "app/templates/settings.yaml": template,
    }
    return Attempt(refusal, files | dict(more or {}))


def template(refusal: str, text: str) -> Attempt:
    """A chart with one more template."""
    return helm(refusal, {"app/templates/more.yaml": text})


def depends(refusal: str, repository: str) -> Attempt:
    """A chart that wants another."""
    return helm(refusal, dependencies=[{"name": "far", "version": "1.0.0", "repository": repository}])


def parameters(refusal: str, **content: Any) -> Attempt:
    """A chart, and what Argo CD takes from the repository as if the Application said it."""
    return helm(refusal, {"app/.argocd-source.yaml": content})


def plain(refusal: str, more: Mapping[str, Any], **source: str) -> Attempt:
    """A folder of manifests."""
    return Attempt(refusal, more, source)


def archive(name: str, content: bytes) -> bytes:
    """A packed chart with one file."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for path, data in (("far/Chart.yaml", yaml.safe_dump(CHART | {"name": "far"}).encode()), (name, content)):
            item = tarfile.TarInfo(path)
            item.size = len(data)
            tar.addfile(item, io.BytesIO(data))
    return packed.getvalue()


def bomb(depth: int) -> str:
    """YAML whose aliases stand for ten to the ``depth`` words."""
    lines = ["a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol, lol]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, depth)]
    return "\n".join([yaml.safe_dump(config_map("bomb", "bomb")), *lines])


def large(name: str) -> str:
    """A manifest of nearly a megabyte, which takes seconds to dump."""
    return yaml.safe_dump(config_map("VALUE", name)).replace("VALUE", "x" * 900_000)


ABOVE = "/".join([".."] * 20)
NO_GIT = "no 'git' program on path"
NOWHERE = "127.0.0.1:9: connect: connection refused"
OUTSIDE = "is not in or below"
LINK = "out-of-bounds symlinks"

ATTEMPTS: Mapping[str, Attempt] = {
    "kustomize remote file": kustomize(NOWHERE, resources=[f"{NOBODY}/base.yaml"]),
    "kustomize base by https": kustomize(NO_GIT, resources=["https://git.example.com/some/base.git?ref=main"]),
    "kustomize base by ssh": kustomize(NO_GIT, resources=["git@git.example.com:some/base.git?ref=main"]),
    "kustomize option for git": kustomize(NO_GIT, resources=["https://git.example.com/a.git?ref=--upload-pack=id"]),
    "kustomize remote component": kustomize(NO_GIT, components=["https://git.example.com/some/part.git"]),
    "kustomize remote patch": kustomize(
        NOWHERE, {"app/a.yaml": config_map("a")}, resources=["a.yaml"], patches=[{"path": f"{NOBODY}/patch.yaml"}]
    ),
    "kustomize metadata service": kustomize(NOWHERE, resources=["http://169.254.169.254/latest/meta-data"]),
    "kustomize chart": kustomize("must specify --enable-helm", helmCharts=[{"name": "chart", "repo": NOBODY}]),
    "kustomize plugin": kustomize("external plugins disabled", {"app/plugin.yaml": PLUGIN}, generators=["plugin.yaml"]),
    "kustomize program": kustomize(
        "external plugins disabled",
        {
            "app/run.sh": "#!/bin/sh\nid\n",
            "app/run.yaml": PLUGIN
            | {"metadata": {"name": "a", "annotations": {"config.kubernetes.io/function": "exec: {path: ./run.sh}"}}},
        },
        transformers=["run.yaml"],
    ),
    "kustomize container": kustomize(
        "external plugins disabled",
        {
            "app/run.yaml": PLUGIN
            | {"metadata": {"name": "a", "annotations": {"config.kubernetes.io/function": "container: {image: evil}"}}}
        },
        transformers=["run.yaml"],
    ),
    "kustomize file": kustomize(OUTSIDE, configMapGenerator=[{"name": "a", "files": ["/etc/passwd"]}]),
    "kustomize file above": kustomize(OUTSIDE, configMapGenerator=[{"name": "a", "files": [f"{ABOVE}/etc/passwd"]}]),
    "kustomize secret": kustomize(OUTSIDE, secretGenerator=[{"name": "a", "files": ["/proc/self/environ"]}]),
    "kustomize folder": kustomize("cannot be absolute", resources=["/etc"]),
    "kustomize crds": kustomize(OUTSIDE, crds=["/etc/passwd"]),
    "kustomize openapi": kustomize(OUTSIDE, openapi={"path": "/etc/passwd"}),
    "kustomize replacement": kustomize(OUTSIDE, replacements=[{"path": "/etc/passwd"}]),
    "kustomize cycle": kustomize(
        "cycle detected", {"base/kustomization.yaml": {"resources": ["../app"]}}, resources=["../base"]
    ),
    "helm remote chart": depends("are not permitted in project", NOBODY),
    "helm remote chart by oci": depends("are not permitted in project", "oci://registry.example.com/charts"),
    "helm chart outside": depends("not found", "file://../../../../../../etc"),
    "helm alias": depends("could not find protocol handler", "@stable"),
    "helm file of the server": template(
        "nothing there", 'value: {{ .Files.Get "../../../../../../etc/passwd" | required "nothing there" }}'
    ),
    "helm environment": template('function "env" not defined', 'value: {{ env "REDIS_PASSWORD" }}'),
    "helm name service": template(
        "no address", 'value: {{ getHostByName "kubernetes.default.svc" | required "no address" }}'
    ),
    "helm cluster": template(
        "nothing found", '{{ if not (lookup "v1" "Secret" "kube-system" "") }}{{ fail "nothing found" }}{{ end }}'
    ),
    "helm memory": template("out of memory", "{{ range until 1000000000 }}{{ end }}"),
    "helm recursion": template(
        "error calling include", '{{ define "a" }}{{ include "a" . }}{{ end }}{{ include "a" . }}'
    ),
    "helm link": helm(LINK, {"app/templates/link.yaml": Path("/etc/passwd")}),
    "helm packed chart that leaves": helm(
        "illegally references parent directory", {"app/charts/far.tgz": archive("far/../../../evil", b"evil")}
    ),
    "parameters remote values": parameters(
        "URL scheme 'https' is not allowed", helm={"valueFiles": [f"{NOBODY}/v.yaml"]}
    ),
    "parameters values": parameters("outside repository root", helm={"valueFiles": ["../../../../etc/passwd"]}),
    "parameters absolute values": parameters("etc/passwd: no such file", helm={"valueFiles": ["/etc/passwd"]}),
    "parameters file": parameters(
        "outside repository root", helm={"fileParameters": [{"name": "value", "path": "../../../../etc/passwd"}]}
    ),
    "parameters plugin": parameters("could not find cmp-server plugin", plugin={"name": "evil"}),
    "parameters kustomize version": Attempt(
        "kustomize version v1 is not registered",
        {"app/kustomization.yaml": {"resources": []}, "app/.argocd-source.yaml": {"kustomize": {"version": "v1"}}},
    ),
    "parameters component": Attempt(
        NO_GIT,
        {
            "app/kustomization.yaml": {"resources": ["settings.yaml"]},
            "app/.argocd-source.yaml": {"kustomize": {"components": ["https://git.example.com/some/part.git"]}},
        },
    ),
    "manifests link": plain(LINK, {"app/link.yaml": Path("/etc/passwd")}),
    "manifests link above": plain(LINK, {"app/link.yaml": Path("../../../etc/passwd")}),
    "manifests aliases": plain("document contains excessive aliasing", {"app/bomb.yaml": bomb(9)}),
    "manifests too large": plain(
        "exceeded max combined manifest file size",
        {f"app/large-{n}.yaml": large(f"large-{n}") for n in range(12)},
    ),
    "manifests path that is a link": plain(LINK, {"other": Path("/etc")}, path="other"),
}


def committed(content: Any) -> Content:
    """A file's content: what is no text is YAML."""
    is_file = content is None or isinstance(content, str | bytes | Path)
    return content if is_file else yaml.safe_dump(content)


@pytest.fixture(scope="module")
async def attempts(
    kube: KubeClient, site: GitSite, deployments: Mirror, applications: Mirror
) -> AsyncIterator[Mapping[str, tuple[Tenant, str]]]:
    """The deployment of each attempt, by its name."""
    async with fresh_tenant(kube, deployments, applications) as tenant:
        made = {}
        for number, (name, attempt) in enumerate(ATTEMPTS.items()):
            source = Source.create(site)
            source.repository.commit({path: committed(content) for path, content in attempt.files.items()})
            made[name] = tenant, f"attempt-{number}"
            await tenant.create(f"attempt-{number}", source=source.spec(**attempt.source))
        yield made


@pytest.mark.parametrize("name", ATTEMPTS)
async def test_repository_when_it_reaches_for_more_than_it_holds_then_it_is_refused(
    name: str, attempts: Mapping[str, tuple[Tenant, str]]
) -> None:
    tenant, deployment = attempts[name]
    await tenant.until_condition("ComparisonError", "True", deployment, message=ATTEMPTS[name].refusal)

"""A node for the stack's cluster: containerd, kubelet, scheduler, kube-proxy, DNS, and who enforces network policies.

Pods find what the stack runs outside the cluster by Services without selectors, at the node's address.
"""

from __future__ import annotations

import shutil
import socket
import sys
from pathlib import Path
from string import Template

from devstack.components import argocd, pods, steps
from devstack.components.kubernetes import node_users
from devstack.components.stack import ENGINE_NAMESPACES, Stack
from devstack.node import machine, remains
from devstack.paths import COMPOSE, ROOT
from devstack.stack.node_addresses import (
    CONNECT,
    DNS,
    GIT,
    INFRASTRUCTURE,
    KAFKA,
    NAME,
    NODE,
    POD_BRIDGE,
    PODS,
    POSTGRES,
    REGISTRY,
)
from devstack.stack.pki import Pki
from devstack.supervisor.health_checks import http
from devstack.supervisor.process import Node, Probe, Process, Step
from devstack.toolchain import image_archive
from devstack.toolchain.image_archive import Image
from devstack.toolchain.install import NodeTools

TEMPLATES = COMPOSE / "node"
PROGRAMS = ("pause", "coredns")
"""Of each there is an image."""
READY_POLICIES = "policies-ready"
"""File that is there once network policies are enforced."""
CLEANING_SECONDS = 60

PODS_NEED = ("dns", "kube-proxy", "kube-scheduler", "kube-controller-manager")
SERVICES_NEED = (*(step.name for step in steps.COMMANDS), *PODS_NEED)
ARGOCD = "argocd-pods"
"""The step that installs it."""


def nodes(stack: Stack, tools: NodeTools, *, infrastructure_only: bool) -> list[Node]:
    """Its processes; and the step that brings our services, unless only what they stand on is wanted."""
    deployed = [] if infrastructure_only else [pods.services(stack, tools, _needs(stack))]
    processes = [_machine(stack), _containerd(stack), _policies(stack), _kubelet(stack, tools)]
    return [
        *processes,
        *_control_plane(stack, tools),
        *_gates(stack),
        _images(stack, tools),
        _cluster_dns(stack, tools),
        *([_argocd(stack, tools)] if stack.with_argocd else []),
        *deployed,
    ]


def _machine(stack: Stack) -> Process:
    folder = stack.node_folder
    return Process(
        name="node",
        argv=(sys.executable, "-m", "devstack.node.machine", str(folder)),
        env=stack.base_environment(),
        ready=_is_there(folder / machine.READY),
        prepare=lambda: _write_files(stack),
        death_signal=machine.END,  # it takes the pods with it
        stop_seconds=CLEANING_SECONDS,
    )


def _containerd(stack: Stack) -> Process:
    folder = stack.node_folder
    return Process(
        name="containerd",
        argv=("containerd", "--config", str(folder / "containerd.toml")),
        env=stack.base_environment(),
        ready=_listens(folder / "containerd.sock"),
        depends_on=("node",),
    )


def _images(stack: Stack, tools: NodeTools) -> Step:
    """Into containerd: no registry is ever asked."""
    folder = stack.node_folder
    archives = [*(str(folder / f"{name}.tar") for name in PROGRAMS), str(tools.service_image)]
    archives += [] if tools.argocd is None else map(str, tools.argocd.archives)
    return Step(
        name="node-images",
        argv=(sys.executable, "-m", "devstack.node.images", str(folder / "containerd.sock"), *archives),
        env=stack.base_environment(),
        depends_on=("containerd",),
        start_seconds=600,  # unpacking took two minutes on a busy machine
    )


def _policies(stack: Stack) -> Process:
    ready = stack.node_folder / READY_POLICIES
    return Process(
        name="network-policies",
        argv=(sys.executable, "-m", "devstack.node.policy_enforcer", str(stack.state.kubeconfig), str(ready)),
        env=stack.base_environment(),
        ready=_is_there(ready),
        depends_on=("node", "kube-apiserver"),
    )


def _kubelet(stack: Stack, tools: NodeTools) -> Process:
    folder, port = stack.node_folder, stack.ports["kubelet"]
    return Process(
        name="kubelet",
        argv=(
            str(tools.kubernetes / "kubelet"),
            f"--config={folder / 'kubelet.yaml'}",
            f"--kubeconfig={stack.state.kubeconfig_of('kubelet')}",
            f"--root-dir={folder / 'kubelet'}",
            f"--hostname-override={NAME}",
            f"--node-ip={NODE}",
        ),
        env=stack.base_environment(),
        ports={"health": port},
        ready=http(port, "/healthz"),
        # No pod is there before the filter is.
        depends_on=("network-policies", "node-images"),
    )


def _control_plane(stack: Stack, tools: NodeTools) -> list[Process]:
    pki = Pki(stack.state.root / "kubernetes")
    kubeconfigs = {user.user.rpartition(":")[2]: user.kubeconfig for user in node_users(stack)}
    scheduler, proxy, metrics = (stack.ports[name] for name in ("kube-scheduler", "kube-proxy", "kube-proxy-metrics"))
    return [
        Process(
            name="kube-scheduler",
            argv=(
                str(tools.kubernetes / "kube-scheduler"),
                f"--kubeconfig={kubeconfigs['kube-scheduler']}",
                "--bind-address=127.0.0.1",
                f"--secure-port={scheduler}",
                f"--tls-cert-file={pki.server_certificate}",
                f"--tls-private-key-file={pki.server_key}",
                "--authentication-skip-lookup=true",
                "--leader-elect=false",
            ),
            env=stack.base_environment(),
            ports={"https": scheduler},
            ready=http(scheduler, "/healthz", pki.authority),
            depends_on=("kube-apiserver",),
        ),
        Process(
            name="kube-proxy",
            argv=(
                str(tools.kubernetes / "kube-proxy"),
                f"--kubeconfig={kubeconfigs['kube-proxy']}",
                "--proxy-mode=nftables",
                f"--hostname-override={NAME}",
                f"--cluster-cidr={PODS}",
                f"--healthz-bind-address=127.0.0.1:{proxy}",
                f"--metrics-bind-address=127.0.0.1:{metrics}",
                f"--nodeport-addresses={NODE}/32",
                "--conntrack-max-per-core=0",
            ),
            env=stack.base_environment(),
            ports={"health": proxy, "metrics": metrics},
            ready=http(proxy, "/livez"),
            depends_on=("node", "kubelet"),
        ),
    ]


def _gates(stack: Stack) -> list[Process]:
    """From the node's address to what listens on the loopback interface only."""
    targets = {
        "kafka": (KAFKA, "kafka-pods"),
        "registry": (REGISTRY, "registry"),
        "postgres": (POSTGRES, "postgres"),
        "connect": (CONNECT, "connect"),
        # Where Service `kubernetes` says that it is.
        "kube-apiserver": (stack.ports["kube-apiserver"], "kube-apiserver"),
    } | ({"git-https": (GIT, "git-https")} if stack.with_argocd else {})
    return [
        Process(
            name=f"{name}-for-pods",
            argv=(
                "socat",
                f"TCP-LISTEN:{port},bind={NODE},reuseaddr,fork",
                f"TCP:127.0.0.1:{stack.ports[target]}",
            ),
            env=stack.base_environment(),
            ports={"pods": port},
            ready=_accepts(port),
            depends_on=("node",),
        )
        for name, (port, target) in targets.items()
    ]


def _cluster_dns(stack: Stack, tools: NodeTools) -> Step:
    folder = stack.node_folder
    argv = (str(tools.kubectl / "kubectl"), "apply", "--server-side", "-f", str(folder / "cluster"))
    environment = stack.base_environment() | {"KUBECONFIG": str(stack.state.kubeconfig)}
    return Step("dns", argv, environment, depends_on=("kubelet", "kube-controller-manager"))


def _argocd(stack: Stack, tools: NodeTools) -> Step:
    folder, kubectl = stack.node_folder / "argocd", tools.kubectl / "kubectl"
    return Step(
        name=ARGOCD,
        argv=(sys.executable, "-m", "devstack.node.argocd", str(kubectl), str(folder), *ENGINE_NAMESPACES),
        env=stack.base_environment()
        | {"KUBECONFIG": str(stack.state.kubeconfig), "REDIS_PASSWORD": stack.secrets["redis"]},
        depends_on=(*PODS_NEED, *argocd.CONTROLLER_NEEDS, "git-https-for-pods"),
        start_seconds=300,
    )


def _needs(stack: Stack) -> tuple[str, ...]:
    """What our services wait for. An agent that finds no Argo CD looks again after minutes."""
    return (*SERVICES_NEED, *([ARGOCD] if stack.with_argocd else []))


async def _write_files(stack: Stack) -> None:
    """Everything that is read from the node's folder."""
    folder = stack.node_folder
    tools = stack.tools.node
    if tools is None:
        raise RuntimeError("no node takes part in this stack")
    pki = Pki(stack.state.root / "kubernetes")
    values = {
        "FOLDER": folder,
        "CGROUP": f"/{remains.OF_PODS}",
        "NODE": NODE,
        "PODS": PODS,
        "BRIDGE": POD_BRIDGE,
        "DNS": DNS,
        "INFRASTRUCTURE": INFRASTRUCTURE,
        "GIT": GIT,
        "SIMULATED": str(not stack.with_argocd).lower(),
        "TRANSPORT": "in-clear" if stack.transport is None else "encrypted",
        "AUTHORITY": pki.authority,
        "CERTIFICATE": pki.server_certificate,
        "KEY": pki.server_key,
        "HEALTH_PORT": stack.ports["kubelet"],
        "API_PORT": stack.ports["kube-apiserver"],
    }
    for ready in (READY_POLICIES, machine.READY):
        (folder / ready).unlink(missing_ok=True)
    for kustomization in ("overlay", "argocd", "installation", "provisioner"):
        shutil.rmtree(folder / kustomization, ignore_errors=True)
    for template in (path for path in TEMPLATES.rglob("*") if path.is_file()):
        target = folder / template.relative_to(TEMPLATES)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(Template(template.read_text()).substitute(values))
    manifests = folder / "k8s"
    manifests.unlink(missing_ok=True)
    manifests.symlink_to(ROOT / "k8s")
    if tools.argocd is not None:
        shutil.copyfile(tools.argocd.manifests, folder / "argocd" / "shipped" / "manifests.yaml")
    (folder / "resolv.conf").write_text("nameserver 127.0.0.1\n")
    for name in PROGRAMS:
        image = Image(f"localhost/{name}:1", [f"/{name}"])
        image_archive.write_programs(image, {name: tools.pods / name}, folder / f"{name}.tar")


def _is_there(path: Path) -> Probe:
    async def probe() -> bool:
        return path.exists()  # noqa: ASYNC240 - nothing else waits for it

    return probe


def _listens(path: Path) -> Probe:
    async def probe() -> bool:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(path))
        return True

    return probe


def _accepts(port: int) -> Probe:
    async def probe() -> bool:
        with socket.create_connection((NODE, port), timeout=1):
            return True

    return probe

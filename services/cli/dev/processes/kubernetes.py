"""A Kubernetes control plane without nodes: etcd, kube-apiserver, kube-controller-manager, built from Go modules."""

from __future__ import annotations

from services.cli.dev.pki import Pki
from services.cli.dev.probes import HOST, http
from services.cli.dev.process import Node, Process
from services.cli.dev.stack import Stack

# A bigger heap between collections: a tenth to a fifth more requests per second.
GO_ENVIRONMENT = {"GOGC": "400"}

CONTROLLERS = ("namespace-controller", "garbage-collector-controller", "serviceaccount-token-controller")
"""Without the first two nothing that has dependents can be deleted; the third fills token Secrets."""


def nodes(stack: Stack) -> list[Node]:
    """The three processes."""
    pki = Pki(stack.state.root / "kubernetes")
    return [_etcd(stack), _apiserver(stack, pki), _controllers(stack, pki)]


def _etcd(stack: Stack) -> Process:
    port, peer = stack.ports["etcd"], stack.ports["etcd-peer"]
    url, peer_url = f"http://{HOST}:{port}", f"http://{HOST}:{peer}"
    return Process(
        name="etcd",
        argv=(
            str(stack.tools.kubernetes / "etcd"),
            "--name=local",
            f"--data-dir={stack.state.root / 'etcd'}",
            f"--listen-client-urls={url}",
            f"--advertise-client-urls={url}",
            f"--listen-peer-urls={peer_url}",
            f"--initial-advertise-peer-urls={peer_url}",
            f"--initial-cluster=local={peer_url}",
            "--log-level=warn",
            *(() if stack.durable else ("--unsafe-no-fsync",)),
        ),
        env=stack.base_environment() | GO_ENVIRONMENT,
        ports={"client": port, "peer": peer},
        ready=http(port, "/health"),
    )


def _apiserver(stack: Stack, pki: Pki) -> Process:
    port = stack.ports["kube-apiserver"]
    return Process(
        name="kube-apiserver",
        argv=(
            str(stack.tools.kubernetes / "kube-apiserver"),
            f"--bind-address={HOST}",
            f"--advertise-address={HOST}",
            f"--secure-port={port}",
            f"--etcd-servers=http://{HOST}:{stack.ports['etcd']}",
            f"--tls-cert-file={pki.server_certificate}",
            f"--tls-private-key-file={pki.server_key}",
            f"--token-auth-file={pki.tokens}",
            "--authorization-mode=RBAC",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-signing-key-file={pki.account_key}",
            f"--service-account-key-file={pki.account_key}",
            "--service-cluster-ip-range=10.0.0.0/24",
            # There are no pods: nothing needs accounts in its namespace, nor the address of this server.
            "--disable-admission-plugins=ServiceAccount",
            "--endpoint-reconciler-type=none",
            "--max-requests-inflight=400",
            "--max-mutating-requests-inflight=200",
            "--profiling=false",
        ),
        env=stack.base_environment() | GO_ENVIRONMENT,
        ports={"https": port},
        ready=http(port, "/readyz", pki.authority),
        depends_on=("etcd",),
        prepare=lambda: _prepare(stack, pki),
    )


def _controllers(stack: Stack, pki: Pki) -> Process:
    port = stack.ports["kube-controller-manager"]
    return Process(
        name="kube-controller-manager",
        argv=(
            str(stack.tools.kubernetes / "kube-controller-manager"),
            f"--kubeconfig={stack.state.kubeconfig}",
            f"--bind-address={HOST}",
            f"--secure-port={port}",
            f"--tls-cert-file={pki.server_certificate}",
            f"--tls-private-key-file={pki.server_key}",
            "--authentication-skip-lookup=true",
            f"--controllers={','.join(CONTROLLERS)}",
            f"--service-account-private-key-file={pki.account_key}",
            f"--root-ca-file={pki.authority}",
            "--leader-elect=false",
        ),
        env=stack.base_environment() | GO_ENVIRONMENT,
        ports={"https": port},
        ready=http(port, "/healthz", pki.authority),
        # Its garbage collector learns of new kinds every 30 seconds only; these it shall know from the beginning.
        depends_on=("kube-apiserver", "crds-apply", "engine-crds-apply"),
    )


async def _prepare(stack: Stack, pki: Pki) -> None:
    server = f"https://{HOST}:{stack.ports['kube-apiserver']}"
    pki.ensure(HOST)
    pki.admit(stack.secrets["admin_token"], server, stack.state.kubeconfig)

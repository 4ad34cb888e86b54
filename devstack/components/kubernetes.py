"""Kubernetes control planes without nodes: etcd, kube-apiserver, kube-controller-manager, built from Go modules.

With Argo CD there is another cluster, as tenants bring their own: another server over the same etcd. There may be a
second engine cluster, which has an etcd of its own: it can be lost with all that it knows, and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from devstack.components import steps
from devstack.components.stack import Stack
from devstack.stack import node_addresses, second_cluster
from devstack.stack.identities import ACCOUNTS, ACCOUNTS_NAMESPACE, IDENTITIES
from devstack.stack.pki import Account, NodeUser, Pki
from devstack.supervisor.health_checks import HOST, http
from devstack.supervisor.process import Node, Process

# A bigger heap between collections: a tenth to a fifth more requests per second.
GO_ENVIRONMENT = {"GOGC": "400"}

ETCD = "etcd"
CONTROLLERS = ("namespace-controller", "garbage-collector-controller", "serviceaccount-token-controller")
"""Without the first two nothing that has dependents can be deleted; the third fills token Secrets. Pods need all."""


WITHOUT_PODS = (
    f"--advertise-address={HOST}",
    "--service-cluster-ip-range=10.0.0.0/24",
    "--authorization-mode=RBAC",
    # Nothing needs accounts in its namespace, nor the address of this server.
    "--disable-admission-plugins=ServiceAccount",
    "--endpoint-reconciler-type=none",
)


@dataclass(frozen=True)
class Cluster:
    """One control plane: names, and what it does not share with another."""

    prefix: str
    """Of its processes' names."""
    etcd: str
    """Name of its etcd."""
    storage: str
    """Prefix of its keys there."""
    pki: Pki
    admin_token: str
    kubeconfig: Path
    """Its administrator's."""
    accounts: tuple[Account, ...] = ()
    steps: tuple[str, ...] = ()
    """What has to be done before its controllers start."""
    node_users: tuple[NodeUser, ...] = ()
    """Programs of its node; none: there is no node."""


def nodes(stack: Stack) -> list[Node]:
    """The processes of each cluster."""
    clusters = [_own(stack)]
    clusters += [_remote(stack)] if stack.with_argocd else []
    clusters += [_second(stack)] if stack.engine_clusters > 1 else []
    servers = [_apiserver(stack, cluster) for cluster in clusters]
    etcds = [_etcd(stack, name) for name in dict.fromkeys(cluster.etcd for cluster in clusters)]
    return [*etcds, *servers, *(_controllers(stack, cluster) for cluster in clusters)]


def _own(stack: Stack) -> Cluster:
    accounts = [
        Account(ACCOUNTS_NAMESPACE, name, stack.secrets[f"token-{name}"], stack.state.kubeconfig_of(name))
        for name in ACCOUNTS
    ]
    return Cluster(
        prefix="",
        etcd=ETCD,
        storage="/registry",
        pki=Pki(stack.state.root / "kubernetes"),
        admin_token=stack.secrets["admin_token"],
        kubeconfig=stack.state.kubeconfig,
        accounts=(*accounts, *_controllers_accounts(stack, "")),
        # Its garbage collector learns of new kinds every 30 seconds only; these it shall know from the beginning.
        steps=(steps.CRDS,),
        node_users=node_users(stack),
    )


def _controllers_accounts(stack: Stack, prefix: str) -> list[Account]:
    """Of the Argo CDs of the cluster with this prefix."""
    return [instance.account for instance in stack.argocd_instances() if instance.prefix == prefix]


def node_users(stack: Stack) -> tuple[NodeUser, ...]:
    """As whom the programs of the node come; none without a node."""
    names = {
        "kubelet": (f"system:node:{node_addresses.NAME}", "system:nodes"),
        "kube-scheduler": ("system:kube-scheduler", ""),
        "kube-proxy": ("system:kube-proxy", ""),
    }
    if not stack.with_pods:
        return ()
    return tuple(
        NodeUser(user, groups, stack.secrets[f"token-{program}"], stack.state.kubeconfig_of(program))
        for program, (user, groups) in names.items()
    )


def _remote(stack: Stack) -> Cluster:
    return Cluster(
        prefix="remote-",
        etcd=ETCD,
        storage="/remote",
        pki=Pki(stack.state.root / "remote"),
        admin_token=stack.secrets["remote_admin_token"],
        kubeconfig=stack.remote_kubeconfig,
    )


def _second(stack: Stack) -> Cluster:
    """The second engine cluster."""
    cluster = stack.second_cluster
    accounts = (
        Account(
            ACCOUNTS_NAMESPACE,
            IDENTITIES[service].account,
            stack.secrets[second_cluster.token_name(service)],
            cluster.kubeconfig_of(service),
        )
        for service in second_cluster.SERVICES
    )
    return Cluster(
        prefix=second_cluster.PREFIX,
        etcd=f"{second_cluster.PREFIX}{ETCD}",
        storage="/registry",
        pki=Pki(cluster.folder),
        admin_token=stack.secrets[f"{second_cluster.NAME}_admin_token"],
        kubeconfig=cluster.kubeconfig,
        accounts=(*accounts, *_controllers_accounts(stack, second_cluster.PREFIX)),
        steps=(f"{second_cluster.PREFIX}{steps.CRDS}",),
    )


def _etcd(stack: Stack, name: str) -> Process:
    port, peer = stack.ports[name], stack.ports[f"{name}-peer"]
    url, peer_url = f"http://{HOST}:{port}", f"http://{HOST}:{peer}"
    return Process(
        name=name,
        argv=(
            str(stack.tools.kubernetes / "etcd"),
            "--name=local",
            f"--data-dir={stack.state.root / name}",
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


def _apiserver(stack: Stack, cluster: Cluster) -> Process:
    name, pki = f"{cluster.prefix}kube-apiserver", cluster.pki
    port = stack.ports[name]
    return Process(
        name=name,
        argv=(
            str(stack.tools.kubernetes / "kube-apiserver"),
            f"--bind-address={HOST}",
            f"--secure-port={port}",
            f"--etcd-servers=http://{HOST}:{stack.ports[cluster.etcd]}",
            f"--etcd-prefix={cluster.storage}",
            f"--tls-cert-file={pki.server_certificate}",
            f"--tls-private-key-file={pki.server_key}",
            f"--token-auth-file={pki.tokens}",
            f"--client-ca-file={pki.authority}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-signing-key-file={pki.account_key}",
            f"--service-account-key-file={pki.account_key}",
            *(_for_pods(pki) if cluster.node_users else WITHOUT_PODS),
            "--max-requests-inflight=400",
            "--max-mutating-requests-inflight=200",
            "--profiling=false",
        ),
        env=stack.base_environment() | GO_ENVIRONMENT,
        ports={"https": port},
        ready=http(port, "/readyz", pki.authority),
        depends_on=(cluster.etcd,),
        prepare=lambda: _prepare(cluster, f"https://{HOST}:{port}"),
    )


def _controllers(stack: Stack, cluster: Cluster) -> Process:
    name, pki = f"{cluster.prefix}kube-controller-manager", cluster.pki
    port = stack.ports[name]
    return Process(
        name=name,
        argv=(
            str(stack.tools.kubernetes / "kube-controller-manager"),
            f"--kubeconfig={cluster.kubeconfig}",
            f"--bind-address={HOST}",
            f"--secure-port={port}",
            f"--tls-cert-file={pki.server_certificate}",
            f"--tls-private-key-file={pki.server_key}",
            "--authentication-skip-lookup=true",
            f"--controllers={'*' if cluster.node_users else ','.join(CONTROLLERS)}",
            f"--service-account-private-key-file={pki.account_key}",
            f"--root-ca-file={pki.authority}",
            "--leader-elect=false",
        ),
        env=stack.base_environment() | GO_ENVIRONMENT,
        ports={"https": port},
        ready=http(port, "/healthz", pki.authority),
        depends_on=(f"{cluster.prefix}kube-apiserver", *cluster.steps),
    )


def _for_pods(pki: Pki) -> tuple[str, ...]:
    """Flags of an API server whose pods reach it, and that reaches a kubelet."""
    return (
        f"--advertise-address={node_addresses.NODE}",
        f"--service-cluster-ip-range={node_addresses.SERVICES}",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        f"--kubelet-client-certificate={pki.admin_certificate}",
        f"--kubelet-client-key={pki.admin_key}",
        "--kubelet-preferred-address-types=InternalIP",
    )


async def _prepare(cluster: Cluster, server: str) -> None:
    cluster.pki.ensure(HOST)
    cluster.pki.admit(cluster.admin_token, server, cluster.kubeconfig, (*cluster.accounts, *cluster.node_users))

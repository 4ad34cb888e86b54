"""One stack: its state, ports, secrets and programs, and from these every process it consists of."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import chain, repeat
from pathlib import Path
from urllib.parse import quote

import yaml

from devstack.git.site import GitSite
from devstack.stack.argocd_instance import Instance
from devstack.stack.identities import ENGINE_CLUSTER, IDENTITIES, WORKSPACE
from devstack.stack.links import PORT_OF, Link, links
from devstack.stack.second_cluster import KUBECONFIG_VARIABLE, NAME, NAMESPACE, PREFIX, PRINCIPAL, SecondCluster
from devstack.stack.state_folder import State, write_private
from devstack.stack.transport import OPERATOR, Transport
from devstack.supervisor.health_checks import HOST
from devstack.toolchain.install import Toolchain

ENGINE_NAMESPACES = ("gitops-service-argocd", "gitops-service-argocd-2")
SPARE_NAMESPACES = ("gitops-service-argocd-3", "gitops-service-argocd-4")
"""Of two more Argo CDs, where there are spares."""
POLL_SECONDS = 3
"""How often Argo CD looks for new commits: nobody tells it of them here, and two minutes are long for a demo."""
LOOPBACK = "127.0.0.0/8"
"""Where this stack's target clusters and git servers are; elsewhere nobody's CR may point there."""

INHERITED = ("PATH", "HOME", "LANG", "TMPDIR", "SSL_CERT_FILE")
"""Of the caller's environment, what the children get: a stray LOG_LEVEL or JAVA_OPTS must not change the stack."""


@dataclass(frozen=True)
class Stack:
    """What the process definitions are made from."""

    state: State
    ports: Mapping[str, int]
    secrets: Mapping[str, str]
    tools: Toolchain
    durable: bool
    """Survive a crash of the machine: databases flush to the disk."""
    transport: Transport | None = None
    """With it, nothing travels in clear between the components; None: on this machine everything does."""
    replicas: int = 1
    """How many planners and watchers; there are two agents in any case."""
    links: Mapping[str, int] = field(default_factory=dict)
    """Ports of the proxies between processes and servers, see :mod:`devstack.stack.links`; empty: there are none."""
    process: str = ""
    """As which process sees it: what it reaches by a proxy has the proxy's port. Empty: as the servers themselves."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Of our services, in place of their defaults."""
    git: bool = False
    """A git server also without Argo CD: agents try logins there."""
    clocks: bool = False
    """Whether those of our services can be set, see :mod:`devstack.stack.clocks`."""
    engine_clusters: int = 1
    """How many there are: one, or two."""
    spares: bool = False
    """Only the first Argo CD runs and takes tenants; others start by name, and an operator adds them then.

    There are three of them in the first engine cluster, and one in the second.
    """
    poll_seconds: int = POLL_SECONDS
    """How often Argo CD looks for new commits."""

    @property
    def argocd_namespaces(self) -> tuple[str, ...]:
        """Of each Argo CD that is prepared in the first engine cluster."""
        return (*ENGINE_NAMESPACES, *SPARE_NAMESPACES) if self.spares else ENGINE_NAMESPACES

    @property
    def engine_namespaces(self) -> tuple[str, ...]:
        """Of the instances that the fleet begins with."""
        return ENGINE_NAMESPACES[:1] if self.spares else ENGINE_NAMESPACES

    @property
    def authority(self) -> Path | None:
        """Signed what the servers show; None in clear."""
        return None if self.transport is None else self.transport.authority

    @property
    def with_links(self) -> bool:
        """Whether there are proxies between processes and servers."""
        return bool(self.links)

    def seen_by(self, process: str) -> Stack:
        """The stack with the ports at which ``process`` reaches its servers."""
        own = {PORT_OF[link.server]: self.links[link.name] for link in self._links() if link.process == process}
        return replace(self, ports={**self.ports, **own}, process=process) if own else self

    def _links(self) -> list[Link]:
        return links(self.replicas, with_argocd=self.with_argocd) if self.with_links else []

    def links_to(self, server: str) -> list[Link]:
        """Of every process that reaches ``server`` by a proxy."""
        return [link for link in self._links() if link.server == server]

    def environment(self) -> dict[str, str]:
        """What an operator of this stack needs to know: the steps' and ``dev env``'s variables."""
        private_keys, public_keys = self.state.sealing_keys
        own = {
            "DATABASE_URL": self.database_url("planner"),
            "DATABASE_OWNER_URL": self.database_url("owner"),
            "DATABASE_BACKUP_URL": self.database_url("backup"),
            "DATABASE_READER_URL": self.database_url("reader"),
            "KUBECONFIG": str(self.state.kubeconfig),
            "SEALING_PRIVATE_KEYS": str(private_keys),
            "SEALING_PUBLIC_KEYS": str(public_keys),
            "WORKSPACE": WORKSPACE,
            "ENGINE_NAMESPACES": ",".join(self.engine_namespaces),
        }
        logins = self._operators_brokers() | self._registry_login(OPERATOR) | self.connect_login()
        return logins | own | self.local_workspaces | self._targets()

    def _targets(self) -> dict[str, str]:
        """What there is to deploy from and to."""
        remote = {"REMOTE_KUBECONFIG": str(self.remote_kubeconfig)} if self.with_argocd else {}
        second = {KUBECONFIG_VARIABLE: str(self.second_cluster.kubeconfig)} if self.engine_clusters > 1 else {}
        return remote | second | (self.git_site().environment() if self.with_git else {})

    def environment_of(self, service: str) -> dict[str, str]:
        """What one of our services is given: its own credentials, and nobody else's."""
        identity = IDENTITIES[service]
        return (
            {"WORKSPACE": WORKSPACE}
            | self._registry_login(service)
            | (self._broker_login(identity.principal) if identity.principal else {})
            | ({"KUBECONFIG": str(self._kubeconfig_of(identity.account))} if identity.account else {})
            | ({"DATABASE_URL": self.database_url(identity.database_role)} if identity.database_role else {})
            | self._settings_of(service)
        )

    def environment_there(self, service: str) -> dict[str, str]:
        """What a service of the second engine cluster is given in place of what it would be in the first."""
        own_keys = {"SEALING_PRIVATE_KEYS": str(self.second_cluster.private_keys)}
        keys = own_keys if self.has_keys_of_clusters else {}
        own = {"ENGINE_CLUSTER": NAME} | self._broker_login(PRINCIPAL) | keys if service == "agent" else {}
        return own | {
            "KUBECONFIG": str(self.second_cluster.kubeconfig_of(service)),
            "ENGINE_NAMESPACES": NAMESPACE,
        }

    @property
    def has_keys_of_clusters(self) -> bool:
        """Whether the agents of each engine cluster have sealing keys of their own."""
        return self.engine_clusters > 1

    @property
    def second_cluster(self) -> SecondCluster:
        """Files of the second engine cluster."""
        return SecondCluster(self.state.root / NAME)

    def _kubeconfig_of(self, account: str) -> Path:
        return self.kubeconfig_seen(self.state.kubeconfig_of(account))

    def kubeconfig_seen(self, original: Path) -> Path:
        """Where this process finds a kubeconfig: the file itself, or what :meth:`write_kubeconfigs` makes of it."""
        return original.with_name(f"{original.stem}-of-{self.process}.kubeconfig") if self.process else original

    def write_kubeconfigs(self, *originals: Path) -> None:
        """Write each, with the proxy's port in place of the API server's; none if this process sees no proxy of it."""
        for original in originals if Link(self.process, "kube-apiserver") in self._links() else ():
            config = yaml.safe_load(original.read_text())
            for each in config["clusters"]:
                each["cluster"]["server"] = f"https://{HOST}:{self.ports['kube-apiserver']}"
            write_private(self.kubeconfig_seen(original), yaml.safe_dump(config))

    def _broker_login(self, principal: str) -> dict[str, str]:
        return {
            "KAFKA_BOOTSTRAP_SERVERS": f"{HOST}:{self.ports['kafka-sasl']}",
            "KAFKA_SECURITY_PROTOCOL": "SASL_PLAINTEXT" if self.transport is None else "SASL_SSL",
            "KAFKA_SASL_MECHANISM": "SCRAM-SHA-512",
            "KAFKA_USERNAME": principal,
            "KAFKA_PASSWORD": self.secrets[f"kafka-{principal}"],
        } | ({} if self.transport is None else {"KAFKA_CA": str(self.transport.authority)})

    def _operators_brokers(self) -> dict[str, str]:
        """In clear there is a listener that asks for nothing."""
        if self.transport is None:
            return {"KAFKA_BOOTSTRAP_SERVERS": f"{HOST}:{self.ports['kafka']}"}
        return self._broker_login(OPERATOR)

    def _registry_login(self, holder: str) -> dict[str, str]:
        address = {"SCHEMA_REGISTRY_URL": f"{self.registry_url()}/apis/ccompat/v7"}
        if self.transport is None:
            return address
        token = self.transport.registry_tokens[holder]
        return address | {"SCHEMA_REGISTRY_CA": str(self.transport.authority), "SCHEMA_REGISTRY_TOKEN": token}

    def connect_login(self) -> dict[str, str]:
        """What it takes to command Connect: the operator's and the connector keeper's."""
        address = f"{HOST}:{self.ports['connect']}"
        if self.transport is None:
            return {"CONNECT_URL": f"http://{address}"}
        certificate, key = self.transport.keeper
        return {
            "CONNECT_URL": f"https://{address}",
            "CONNECT_CA": str(self.transport.connect_authority),
            "CONNECT_CERTIFICATE": str(certificate),
            "CONNECT_KEY": str(key),
        }

    def _settings_of(self, service: str) -> dict[str, str]:
        private_keys, public_keys = self.state.sealing_keys
        settings = {
            "watcher": {"SEALING_PUBLIC_KEYS": str(public_keys)} | self._of_several(),
            "planner": {"ALLOWED_ADDRESSES": LOOPBACK} | self.local_workspaces,
            "agent": {
                "SEALING_PRIVATE_KEYS": str(private_keys),
                "ALLOWED_ADDRESSES": LOOPBACK,
                "ACCEPT_UNSEEN_ENGINES": "true",  # processes of this machine, and no workloads of a cluster
            }
            | self._of_engines(),
            "argocd-simulator": {"ENGINE_NAMESPACES": ",".join(ENGINE_NAMESPACES)},
        }
        return settings.get(service, {})

    @property
    def local_workspaces(self) -> dict[str, str]:
        """Where there are two engine clusters, what planners are told of the workspace: its namespaces are in both."""
        both = ",".join(f"{WORKSPACE}={cluster}" for cluster in (ENGINE_CLUSTER, NAME))
        return {"LOCAL_WORKSPACES": both} if self.engine_clusters > 1 else {}

    def _of_several(self) -> dict[str, str]:
        """One watcher alone needs no Lease, and follows its workspace at once."""
        return {"LEADER_ELECTION": "true"} if self.replicas > 1 else {}

    def _of_engines(self) -> dict[str, str]:
        """The simulator has none of Argo CD's settings, and deploys nothing."""
        engines = {} if self.with_argocd else {"ACCEPT_UNISOLATED_ENGINES": "true"}
        return engines | (self._trusted() if self.with_git else {})

    def _trusted(self) -> dict[str, str]:
        """The git servers that an agent may believe."""
        site = self.git_site()
        return {"GIT_AUTHORITIES": str(site.pki.authority), "SSH_KNOWN_HOSTS": str(site.known_hosts)}

    @property
    def with_argocd(self) -> bool:
        """Whether real Argo CD takes the simulator's place, with git servers and a cluster to deploy to."""
        return self.tools.argocd is not None

    @property
    def with_git(self) -> bool:
        """Whether there is a git server."""
        return self.git or self.with_argocd

    @property
    def with_pods(self) -> bool:
        """Whether there is a node, on which our services run as pods."""
        return self.tools.node is not None

    @property
    def node_folder(self) -> Path:
        """Data of the node."""
        return self.state.folder("node")

    def argocd_instances(self) -> list[Instance]:
        """Processes of each, one per namespace of an Argo CD; none without Argo CD, and none where it is pods."""
        if self.tools.argocd is None or self.with_pods:
            return []
        places = [(number, "", namespace) for number, namespace in enumerate(self.argocd_namespaces, 1)]
        places += [(1, PREFIX, NAMESPACE)] if self.engine_clusters > 1 else []
        versions = chain(self.tools.argocd_versions, repeat(self.tools.argocd))
        return [
            Instance(
                number=number,
                prefix=prefix,
                namespace=namespace,
                folder=self.state.root / "argocd" / f"{prefix}{number}",
                token=self.secrets[f"token-{prefix}argocd-{number}"],
                redis_password=self.secrets["redis"],
                programs=version / "bin",
            )
            for (number, prefix, namespace), version in zip(places, versions, strict=False)
        ]

    def git_site(self) -> GitSite:
        """The git servers."""
        return GitSite(
            self.state.root / "git", self.ports["git-https"], self.ports["git-ssh"], password=self.secrets["git"]
        )

    @property
    def remote_kubeconfig(self) -> Path:
        """Credentials of the administrator of the second cluster, which is there with Argo CD."""
        return self.state.root / "remote-kubeconfig"

    def database_url(self, role: str) -> str:
        """URL of the database ``gitops`` for a role of ``compose/postgres/init.sql``, without its prefix."""
        url = f"postgresql://gitops_{role}:{self.secrets[role]}@{HOST}:{self.ports['postgres']}/gitops"
        if self.transport is None:
            return url
        return f"{url}?sslmode=verify-full&sslrootcert={quote(str(self.transport.authority))}"

    def registry_url(self) -> str:
        """Root of the schema registry."""
        return f"{'http' if self.transport is None else 'https'}://{HOST}:{self.ports['registry']}"

    def base_environment(self) -> dict[str, str]:
        """What every child gets."""
        return {name: os.environ[name] for name in INHERITED if name in os.environ} | {"TZ": "UTC"}

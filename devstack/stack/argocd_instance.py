"""The Argo CD instances of a stack: where each keeps its files, and as whom it comes to the cluster."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from devstack.stack.pki import Account
from devstack.stack.state_folder import write_private

CONTROLLER_ACCOUNT = "argocd-application-controller"


@dataclass(frozen=True)
class Instance:
    """One Argo CD, in one namespace; it shares nothing with another."""

    number: int
    """Counts from 1 in each engine cluster; ends the names of its processes."""
    prefix: str
    """Of these names, and of what it needs in its cluster: empty in the first."""
    namespace: str
    folder: Path
    """For its files alone."""
    token: str
    """Its controller's, at the API server."""
    redis_password: str
    programs: Path
    """Folder of its Argo CD's: another instance may run another version."""

    @property
    def account(self) -> Account:
        """The service account of its controller."""
        return Account(self.namespace, CONTROLLER_ACCOUNT, self.token, self.kubeconfig)

    @property
    def kubeconfig(self) -> Path:
        """Credentials of its controller."""
        return self.folder / "kubeconfig"

    @property
    def redis_configuration(self) -> Path:
        """What is not to be seen on a command line."""
        return self.folder / "redis.conf"

    @property
    def generators(self) -> Path:
        """Folder of what its repo server calls in place of kustomize and helm."""
        return self.folder / "generators"

    def process(self, component: str) -> str:
        """Name of one of its processes."""
        return f"{self.prefix}argocd-{component}-{self.number}"

    def paths(self) -> dict[str, str]:
        """Where its programs find and keep files, in place of the folders that a pod would have."""
        return {
            "HOME": str(self.folder / "home"),
            "TMPDIR": str(self.folder / "tmp"),
            "ARGOCD_TLS_DATA_PATH": str(self.folder / "tls"),
            "ARGOCD_SSH_DATA_PATH": str(self.folder / "ssh"),
            "ARGOCD_GNUPGHOME": str(self.folder / "gnupg"),
            "ARGOCD_GPG_DATA_PATH": str(self.folder / "gpg"),
            "ARGOCD_PLUGINSOCKFILEPATH": str(self.folder / "plugins"),
        }

    def mount(self, certificates: dict[str, str], known_hosts: str) -> None:
        """Put in place what a pod gets from config maps: certificates by host name, and keys of ssh servers."""
        for path in self.paths().values():
            Path(path).mkdir(mode=0o700, parents=True, exist_ok=True)
        for host, certificate in certificates.items():
            (self.folder / "tls" / host).write_text(certificate)
        (self.folder / "ssh" / "ssh_known_hosts").write_text(known_hosts)

    def configure_redis(self, port: int, host: str) -> None:
        """Write Redis' configuration: a cache, nothing of it on disk."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lines = (
            f"bind {host}",
            f"port {port}",
            f"requirepass {self.redis_password}",
            'save ""',
            "appendonly no",
            "maxmemory 256mb",
            "maxmemory-policy allkeys-lru",
            f'dir "{self.folder}"',
        )
        write_private(self.redis_configuration, "\n".join(lines) + "\n")

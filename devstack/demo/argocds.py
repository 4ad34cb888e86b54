"""The Argo CDs of the demo: of two versions, in two engine clusters; each joins the fleet when its act comes."""

from __future__ import annotations

from dataclasses import dataclass

from devstack.components.stack import ENGINE_NAMESPACES, SPARE_NAMESPACES
from devstack.stack import second_cluster
from devstack.stack.identities import ENGINE_CLUSTER
from devstack.toolchain.gobuild import ARGOCD, Build
from devstack.toolchain.install import ARGOCD_SOURCES, ARGOCD_VARIANTS

OLD_ARGOCD = "3.1"
STACK = ("--spares", "--engine-clusters", "2", *("--argocd-version", OLD_ARGOCD) * 2)
"""Options of its stack: the first two Argo CDs are of the old version, all others of the newest."""
SETTINGS = {
    "HEALTH_INTERVAL_SECONDS": "0.5",
    "HEALTH_REPORT_SECONDS": "1",
    "HEARTBEAT_DEADLINE_SECONDS": "6",
    "REMEDY_AFTER": "PT1S",
    "REMEDY_COOL_DOWN": "PT4S",
    "RECOVERED_AFTER": "PT3S",
    "ROLLOUT_INTERVAL": "PT0.5S",
}
"""What takes minutes elsewhere takes seconds here; but an evacuated instance is not replaced before it is healed."""
CAPACITY = 40
"""Applications: few, so that the bars of the table show something."""


@dataclass(frozen=True, slots=True)
class Instance:
    """An Argo CD of the stack, as it joins the fleet."""

    number: int
    id: str
    ring: str
    version: str
    cluster: str = ENGINE_CLUSTER

    @property
    def namespace(self) -> str:
        """Where its Applications are."""
        if self.cluster == second_cluster.NAME:
            return second_cluster.NAMESPACE
        return (*ENGINE_NAMESPACES, *SPARE_NAMESPACES)[self.number - 1]

    @property
    def processes(self) -> tuple[str, ...]:
        """In the order in which they start."""
        prefix = second_cluster.PREFIX if self.cluster == second_cluster.NAME else ""
        parts = ("redis", "repo-server", "application-controller")
        return tuple(f"{prefix}argocd-{part}-{self.number}" for part in parts)

    @property
    def controller(self) -> str:
        """The process that compares and deploys."""
        return self.processes[-1]

    @property
    def added_by(self) -> str:
        """The command that adds it."""
        cluster = f"--cluster {self.cluster} " if self.cluster != ENGINE_CLUSTER else ""
        where = f"{cluster}--namespace {self.namespace} --ring {self.ring}"
        return f"add {self.id} {where} --version {self.version} --capacity {CAPACITY}"


def version(minor: str) -> str:
    """As it is pinned, such as 3.2.11."""
    return Build(ARGOCD_SOURCES, ARGOCD, ARGOCD_VARIANTS[minor]).version().removeprefix("v")

"""Settings of the agent, and those that it shares with the provisioner. The bootstrap reads them once."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, FilePath

from services.common.addresses import AddressPolicy
from services.common.argocd_names import INSTALLATION_ID
from services.common.kafka import DEFAULT_ENGINE_CLUSTER, ENGINE_CLUSTER_NAME, FLEET, engine_topic, observations_topic
from services.common.platform_namespaces import is_platform
from services.common.settings import AllowedAddresses, Names, ServiceSettings

GROUP = "gitops-agent"
"""Prefix of the agents' consumer groups."""


class EngineClusterSettings(ServiceSettings):
    """Settings of agent and provisioner: the engine cluster that they belong to."""

    engine_cluster: str = Field(
        default=DEFAULT_ENGINE_CLUSTER,
        pattern=ENGINE_CLUSTER_NAME,
        description="Id of the engine cluster, as operators have added it: the process is for all of its instances.",
    )
    kubeconfig: Path | None = Field(default=None, description="Engine cluster; the pod's service account if left out.")
    fleet_topic: str = Field(default=FLEET, description="Topic of engine instances; as in topics.yaml.")
    observations_topic: str = Field(
        default="", description="Topic of observations; gitops.observations.<ENGINE_CLUSTER> if left out."
    )

    @property
    def topic_of_reports(self) -> str:
        """The topic that this cluster's agents and its provisioner write to."""
        return self.observations_topic or observations_topic(self.engine_cluster)


class AgentSettings(EngineClusterSettings):
    """Settings of an agent."""

    accept_unseen_engines: bool = Field(
        default=False,
        description="Deploy by an Argo CD of which neither Deployment argocd-repo-server nor StatefulSet "
        "argocd-application-controller is in its namespace, so that its version and settings cannot be judged; with "
        "ACCEPT_UNISOLATED_ENGINES, also by one that the agent may not read. Only if it is a version that has the "
        "fixes, or runs elsewhere.",
    )
    accept_unisolated_engines: bool = Field(
        default=False,
        description="Deploy by an Argo CD that does not keep tenants apart: without the exclusions, the closed default "
        "project, an installation id or the script of k8s/argocd, with more rights than tenants may have, or with "
        "a workload that is not found; with ACCEPT_UNSEEN_ENGINES, also by one of which none of that can be read. Only "
        "where all who deploy by it trust each other, or nothing is deployed.",
    )
    installation_id: str = Field(
        default=INSTALLATION_ID,
        min_length=1,
        description="installationID of every Argo CD of the fleet, in all engine clusters, and of no other Argo CD.",
    )
    platform_namespaces: Names = Field(
        default=frozenset(),
        description="Namespaces of the engine cluster that nothing is deployed to, comma separated, besides those that "
        "are never: gitops-service, the namespaces of the cluster's engine instances, kube-* and openshift-*.",
    )
    agent_group: str = Field(
        default="",
        pattern=r"^[a-zA-Z0-9._-]{0,100}$",
        description="Consumer group; gitops-agent-<ENGINE_CLUSTER> if left out.",
    )
    group_instance_id: str = Field(
        default="",
        pattern=r"^[a-zA-Z0-9._-]{0,249}$",
        description="Name of this process in the group, no other's and the same after a restart, such as a pod's: one "
        "that was killed and starts again in time has its partitions back at once. None if left out.",
    )
    engine_topic: str = Field(
        default="", description="Topic of compiled rows; gitops.engine.<ENGINE_CLUSTER> if left out."
    )
    concurrency_per_instance: int = Field(
        default=8, ge=1, le=64, description="Calls in flight per engine instance; above 8 an API server gains nothing."
    )
    deletion_deadline_seconds: float = Field(
        default=300, gt=0, description="After this long a deletion the engine has not finished is forced."
    )
    comparison_interval_seconds: float = Field(
        default=300,
        gt=0,
        description="Between two full comparisons of an instance with its desired state, and two checks of the "
        "hosts of repositories.",
    )
    orphan_grace_seconds: float = Field(
        default=600, gt=0, description="How long an object of ours may be desired by no row before it is deleted."
    )
    sealing_private_keys: Path = Field(
        description="JWK set of private keys, every one that something may be sealed under, and none of another engine "
        "cluster; read again when it changes."
    )
    allowed_addresses: AllowedAddresses = Field(
        default=AddressPolicy(),
        description="Networks that tenants' servers may be in although they are loopback, link-local or the like; "
        "as the planner's.",
    )
    ssh_known_hosts: FilePath | None = Field(
        default=None,
        description="OpenSSH known_hosts file of the git servers that tenants may reach by ssh; none if left out.",
    )
    git_authorities: FilePath | None = Field(
        default=None, description="PEM file of authorities that git servers may have besides the system's."
    )
    check_interval_seconds: float = Field(
        default=600, ge=30, description="Between two checks of the credentials of an environment or repository."
    )
    failed_check_interval_seconds: float = Field(
        default=60, ge=10, description="At most this long after a failed check the next one is made."
    )
    token_lifetime_seconds: float = Field(
        default=86_400,
        ge=3600,
        description="Of tokens of service accounts made on tenants' clusters; renewed at half of it.",
    )
    checks_at_once: int = Field(default=16, ge=1, le=256, description="Checks of credentials at once, overall.")
    checks_at_once_per_tenant: int = Field(default=2, ge=1, le=64, description="The same, of one tenant.")
    session_timeout_seconds: float = Field(
        default=6, ge=1, le=300, description="Silence after which the broker gives an agent's partitions to another."
    )
    health_interval_seconds: float = Field(
        default=10, gt=0, description="Between two measurements of how an Argo CD is; three of five are believed."
    )
    health_report_seconds: float = Field(
        default=60,
        gt=0,
        le=60,
        description="Between two reports of how an Argo CD is, if that has not changed. A minute at most: planners "
        "take an instance as silent of which nothing is told for three (HEALTH_PATIENCE), and may evacuate it.",
    )
    heartbeat_repository: str = Field(
        default="",
        description="Git repository that every Argo CD of the cluster can always read without a login, for the "
        "heartbeat Application; there is none if left out.",
    )
    heartbeat_path: str = Field(
        default=".", min_length=1, description="Folder of that repository, which is rendered and never deployed."
    )
    heartbeat_revision: str = Field(
        default="HEAD", min_length=1, description="Branch, tag or commit of that repository."
    )
    heartbeat_deadline_seconds: float = Field(
        default=60,
        gt=0,
        description="An Argo CD that has not compared the heartbeat Application for so long is degraded; for four "
        "times as long, down. It is asked to twice as often.",
    )
    commit_interval_seconds: float = Field(default=1, gt=0, description="Between two commits of offsets.")

    @property
    def consumer_group(self) -> str:
        """The consumer group of this cluster's agents."""
        return self.agent_group or f"{GROUP}-{self.engine_cluster}"

    @property
    def topic_of_rows(self) -> str:
        """The topic whose partitions this cluster's agents share."""
        return self.engine_topic or engine_topic(self.engine_cluster)

    def is_platform(self, namespace: str) -> bool:
        """Whether operators have reserved a namespace of the engine cluster.

        Engine namespaces are reserved in any case.
        """
        return is_platform(namespace) or namespace in self.platform_namespaces

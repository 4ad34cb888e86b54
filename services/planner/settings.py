"""The planner's settings, and those of them that decide what a plan comes to."""

from __future__ import annotations

import re
from collections import defaultdict
from datetime import timedelta
from typing import Annotated, Literal

from pydantic import Field, NonNegativeInt, SecretStr, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from services.common.api_resource import GroupKind
from services.common.kafka import DEFAULT_ENGINE_CLUSTER, ENGINE_CLUSTER_NAME, WORKSPACE_NAME
from services.common.settings import AllowedAddresses, ServiceSettings
from services.kinds.registry import REGISTRY
from services.kinds.shared.limits import DEFAULT_BYTES, DEFAULT_DESTINATIONS, MEBIBYTE
from services.planner.database_url import check_database_url
from services.planner.domain.fleet.pools.pool_rows import Patience
from services.planner.domain.policy import Policy, RemedyPolicy, SweepGuard

DEFAULTS = Policy()


class PolicySettings(BaseSettings):
    """What an operator lays down for all tenants."""

    model_config = SettingsConfigDict(frozen=True, extra="ignore")

    resync_guard_share: float = Field(
        default=DEFAULTS.guard.share,
        gt=0,
        le=1,
        description="A resync that would remove a greater share of a partition is refused.",
    )
    resync_guard_minimum: int = Field(
        default=DEFAULTS.guard.minimum,
        ge=0,
        description="So many resources a resync may always remove from a partition.",
    )
    allowed_addresses: AllowedAddresses = Field(
        default=DEFAULTS.addresses,
        description="Networks that tenants may name although they are loopback or link-local, e.g. 127.0.0.0/8.",
    )
    local_workspaces: Annotated[dict[str, frozenset[str]], NoDecode] = Field(
        default=dict(DEFAULTS.local_workspaces),
        description="Workspaces whose namespaces are in an engine cluster: workspace=cluster, or workspace alone for "
        f"the cluster {DEFAULT_ENGINE_CLUSTER}; a workspace may be listed with several. Only there a deployment needs "
        "no environment.",
    )
    refused_kinds: Annotated[frozenset[GroupKind], NoDecode] = Field(
        default=DEFAULTS.refused_kinds,
        description="Kinds that tenants with a namespace on the engines' own cluster may not deploy: Kind, group/Kind.",
    )
    tenant_quotas: Annotated[dict[str, NonNegativeInt], NoDecode] = Field(
        default={kind.name: kind.default_quota for kind in REGISTRY.kinds},
        description="How many resources of a kind a tenant may have: Kind=number; others keep their default.",
    )
    tenant_destinations: int = Field(
        default=DEFAULT_DESTINATIONS, ge=0, description="Namespaces that a tenant's environments may list together."
    )
    tenant_bytes: int = Field(
        default=DEFAULT_BYTES,
        ge=0,
        description="Length of all specs, with what their kinds declare besides, and sealed Secrets a tenant may have.",
    )

    move_patience: timedelta = Field(
        default=DEFAULTS.move_patience,
        gt=timedelta(0),
        description="How long a step of a tenant's move to another engine instance may take, before it goes back. "
        "After half of it sync runs are terminated, and what a tenant may keep agents from for ever is not waited for. "
        "When the target has all Applications, it goes on after that without having compared each.",
    )
    moves_at_once: int = Field(
        default=DEFAULTS.moves_at_once,
        ge=1,
        description="Tenants that an engine instance gives or gets at a time; one that is down gives any number.",
    )
    moves_yield_above: timedelta = Field(
        default=DEFAULTS.moves_yield_above,
        gt=timedelta(0),
        description="How long changes may take until they are applied, in 95 of 100 tenants that make some. While they "
        "take longer in an engine cluster, each instance of the fleet gives or gets one tenant at a time; one that is "
        "evacuated gives as many as ever.",
    )

    splitting: Literal["on", "off"] = Field(
        default="on",
        description="Whether environments of a tenant that takes up most of its engine instance go to others; off "
        "while there are planners of a release without it.",
    )

    new_snapshots: Literal["promoted", "kept"] = Field(
        default="kept",
        description="promoted: a new Snapshot begins an automated promotion, from the Environments without a parent "
        "whose deploymentStrategy is AppStudioAutomated. kept: nothing follows from it by itself.",
    )

    binding_patience: timedelta = Field(
        default=DEFAULTS.binding_patience,
        gt=timedelta(0),
        description="How long the Application of a SnapshotEnvironmentBinding may be missing until the binding is "
        "deleted, with everything it has deployed. Longer than an upgrade of all watchers takes: those of a release "
        "without this setting do not ask the API server for the Application first.",
    )

    health_patience: timedelta = Field(
        default=DEFAULTS.health_patience,
        ge=timedelta(minutes=2),
        description="How long an agent may tell nothing of an engine instance until its health is Unknown; agents do "
        "each minute, and one report may be late.",
    )
    provisioning_patience: timedelta = Field(
        default=DEFAULTS.provisioning_patience,
        gt=timedelta(0),
        description="How long an engine instance that was added may take to be ready, its installation included, until "
        "it is said to have failed.",
    )
    shrink_patience: timedelta = Field(
        default=DEFAULTS.scaling.shrink,
        ge=timedelta(0),
        description="How long fewer engine instances have to be enough for a pool until it gives one up. More than a "
        "day, so that what is needed at noon is not given up each night.",
    )
    overload_patience: timedelta = Field(
        default=DEFAULTS.scaling.overload,
        ge=timedelta(0),
        description="How long an engine instance carries more than 85 % of its capacity until tenants leave.",
    )
    rollout_interval: timedelta = Field(
        default=DEFAULTS.rollout_interval,
        gt=timedelta(0),
        description="How often the rollout that is under way is looked at.",
    )

    remediation: Literal["on", "off"] = Field(
        default="on", description="Whether planners do something by themselves for engine instances that are ill."
    )
    remedy_after: timedelta = Field(
        default=DEFAULTS.remedies.after,
        ge=timedelta(0),
        description="How long an engine instance has to be ill before the first remedy.",
    )
    remedy_cool_down: timedelta = Field(
        default=DEFAULTS.remedies.cool_down,
        gt=timedelta(0),
        description="How long a restart of a part of an engine instance may take to help, before the next remedy; "
        "other remedies have more or less, in proportion.",
    )
    replace_after: timedelta = Field(
        default=DEFAULTS.remedies.replace_after,
        ge=timedelta(0),
        description="How long an evacuated engine instance may take to become healthy before it is retired, and "
        "another takes its place.",
    )
    recovered_after: timedelta = Field(
        default=DEFAULTS.remedies.recovered_after,
        ge=timedelta(0),
        description="How long an engine instance has to be healthy until tenants come to it again.",
    )

    @property
    def policy(self) -> Policy:
        """As an argument of every plan."""
        return Policy(
            guard=SweepGuard(self.resync_guard_share, self.resync_guard_minimum),
            limits=REGISTRY.limits(self.tenant_quotas, destinations=self.tenant_destinations, bytes_=self.tenant_bytes),
            addresses=self.allowed_addresses,
            local_workspaces=self.local_workspaces,
            refused_kinds=self.refused_kinds,
            move_patience=self.move_patience,
            moves_at_once=self.moves_at_once,
            moves_yield_above=self.moves_yield_above,
            splits_tenants=self.splitting == "on",
            promotes_snapshots=self.new_snapshots == "promoted",
            binding_patience=self.binding_patience,
            health_patience=self.health_patience,
            remedies=RemedyPolicy(
                is_on=self.remediation == "on",
                after=self.remedy_after,
                cool_down=self.remedy_cool_down,
                replace_after=self.replace_after,
                recovered_after=self.recovered_after,
            ),
            provisioning_patience=self.provisioning_patience,
            scaling=Patience(self.shrink_patience, self.overload_patience),
            rollout_interval=self.rollout_interval,
        )

    @field_validator("local_workspaces", mode="before")
    @classmethod
    def _parse_workspaces(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        found: defaultdict[str, set[str]] = defaultdict(set)
        for each in filter(None, map(str.strip, value.split(","))):
            workspace, separator, cluster = each.partition("=")
            cluster = cluster if separator else DEFAULT_ENGINE_CLUSTER
            if not re.fullmatch(WORKSPACE_NAME, workspace) or not re.fullmatch(ENGINE_CLUSTER_NAME, cluster):
                raise ValueError(f"'{each}' is no workspace; write workspace or workspace=cluster, comma separated")
            found[workspace].add(cluster)
        return found

    @field_validator("refused_kinds", mode="before")
    @classmethod
    def _parse_kinds(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        return frozenset(GroupKind.parse(each) for each in map(str.strip, value.split(",")) if each)

    @field_validator("tenant_quotas", mode="before")
    @classmethod
    def _parse_quotas(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        named = dict(each.strip().partition("=")[::2] for each in value.split(",") if each.strip())
        if unknown := sorted(kind for kind in named if kind not in REGISTRY):
            raise ValueError(f"there is no kind '{unknown[0]}'; write Kind=number, comma separated")
        return cls.model_fields["tenant_quotas"].default | named


class PlannerSettings(PolicySettings, ServiceSettings):
    """Read from the environment, once."""

    database_url: SecretStr = Field(
        description="The database: postgresql://gitops_planner:…@host:port/gitops?sslmode=verify-full&sslrootcert=FILE"
    )
    batch_limit: int = Field(default=500, ge=1, le=10_000, description="Most messages in one transaction.")
    tenants_in_memory_bytes: int = Field(
        default=128 * MEBIBYTE, ge=0, description="Of tenants that are kept in memory, so that they need not be read."
    )
    audit_kept: timedelta = Field(
        default=timedelta(days=30), gt=timedelta(0), description="How long audit rows of finished changes are kept."
    )

    sync_runs_kept: timedelta = Field(
        default=timedelta(days=15),
        gt=timedelta(0),
        description="How long ended runs are remembered after their CR is gone. A planner does not start unless that "
        "is longer than gitops.commands keeps messages (retention.ms): a run could run again.",
    )

    @field_validator("database_url")
    @classmethod
    def _says_what_it_does(cls, url: SecretStr) -> SecretStr:
        check_database_url(url.get_secret_value())
        return url

"""SnapshotEnvironmentBinding: deploys the components of an application, as a snapshot has them, to an environment."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, WithJsonSchema

from services.common.api_resource import ApiResource
from services.kinds.shared.api_group import APPSTUDIO_GROUP, VERSION
from services.kinds.shared.api_model import (
    CONDITIONS,
    ApiModel,
    Condition,
    EnvironmentVariable,
    ForeignCondition,
    cel,
)
from services.kinds.shared.immutable import unchanged
from services.kinds.shared.text import MAX_COMPONENTS, MAX_LABEL, MAX_NAME, MAX_VARIABLES

BINDING = ApiResource(APPSTUDIO_GROUP, VERSION, "SnapshotEnvironmentBinding", "snapshotenvironmentbindings")

MAX_REPLICAS = 10_000
MAX_RESOURCES = 32
"""Kinds of compute resources that a component asks for."""
MAX_QUANTITY = 64

REPORTED_MEMBERS = frozenset({"components", "gitopsRepoConditions"})
"""Members of its status that the build service writes."""

Quantity = Annotated[int | str, WithJsonSchema({"x-kubernetes-int-or-string": True, "maxLength": MAX_QUANTITY})]
ResourceName = Annotated[str, Field(max_length=MAX_NAME)]


class ComputeResources(ApiModel):
    """What a component may use, and is given."""

    limits: dict[ResourceName, Quantity] | None = Field(
        default=None, max_length=MAX_RESOURCES, description="At most this much of each."
    )
    requests: dict[ResourceName, Quantity] | None = Field(
        default=None, max_length=MAX_RESOURCES, description="At least this much of each."
    )


class ComponentConfiguration(ApiModel):
    """How a component differs in this environment; the build service writes it into the GitOps repository."""

    replicas: int | None = Field(default=None, ge=0, le=MAX_REPLICAS, description="How many of its pods there are.")
    resources: ComputeResources | None = None
    env: list[EnvironmentVariable] | None = Field(
        default=None, max_length=MAX_VARIABLES, description="Variables besides those of the environment."
    )


class BindingComponent(ApiModel):
    """A component that is deployed."""

    name: str = Field(max_length=MAX_LABEL, description="Name of the Component.")
    configuration: ComponentConfiguration | None = None


class BindingSpec(ApiModel):
    """Which snapshot is deployed where."""

    application: str = Field(
        max_length=MAX_LABEL,
        description="Name of an Application of the same namespace.",
        json_schema_extra=cel(unchanged("application", BINDING.kind)),
    )
    environment: str = Field(
        max_length=MAX_LABEL,
        description="Name of an Environment of the same namespace.",
        json_schema_extra=cel(unchanged("environment", BINDING.kind)),
    )
    snapshot: str = Field(max_length=MAX_NAME, description="Name of a Snapshot of the same namespace.")
    components: list[BindingComponent] = Field(
        max_length=MAX_COMPONENTS, description="The components that are deployed."
    )


class GitOpsRepository(ApiModel):
    """Where the manifests of a component for an environment are."""

    url: str = Field(description="Git repository.")
    branch: str = Field(description="Branch, tag or commit.")
    path: str = Field(description="Folder in it.")
    generated_resources: list[str] | None = Field(default=None, description="Files that the build service made.")
    commit_id: str = Field(
        default="", alias="commitID", description="The commit that brought the component to the snapshot's image."
    )


class ComponentStatus(ApiModel):
    """What the build service says of a component."""

    name: str = Field(description="Name of the component.")
    generated_route_name: str | None = Field(default=None, description="Name of the route that it made.")
    git_ops_repository: GitOpsRepository = Field(alias="gitopsRepository")


class BoundDeployment(ApiModel):
    """The GitOpsDeployment of a component, and how that is."""

    component_name: str = Field(description="Name of the component.")
    git_ops_deployment: str = Field(default="", alias="gitopsDeployment", description="Name of the GitOpsDeployment.")
    sync_status: str = Field(default="", description="Synced, OutOfSync or Unknown.")
    health: str = Field(default="", description="Healthy, Progressing, Degraded, Suspended, Missing or Unknown.")
    commit_id: str = Field(default="", alias="commitID", description="The commit that was compared with.")


class BindingStatus(ApiModel):
    """What became of it. The build service writes components and gitopsRepoConditions, this service the rest."""

    git_ops_deployments: list[BoundDeployment] | None = Field(
        default=None, alias="gitopsDeployments", description="The GitOpsDeployments, sorted by component."
    )
    components: list[ComponentStatus] | None = Field(default=None, description="Where each component's manifests are.")
    git_ops_repo_conditions: list[ForeignCondition] | None = Field(
        default=None, alias="gitopsRepoConditions", description="Whether the GitOps repository could be written."
    )
    binding_conditions: list[Condition] | None = Field(default=None, description=CONDITIONS)
    component_deployment_conditions: list[Condition] | None = Field(
        default=None, description="Whether all components are deployed."
    )

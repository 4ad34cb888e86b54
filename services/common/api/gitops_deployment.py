"""GitOpsDeployment: deploy what a Git repository holds at a path."""

from __future__ import annotations

from typing import Any

from pydantic import ConfigDict, Field
from pydantic.alias_generators import to_camel

from services.common.api.conditions import Condition
from services.common.api.model import ApiModel, cel, rule

FINALIZER = "resources-finalizer.managed-gitops.redhat.com"
"""Put on a GitOpsDeployment by users who want it to stay until what it deployed is gone."""

MAX_URL = 2048
MAX_PATH = 1024
MAX_REVISION = 256
MAX_LABEL = 63
MAX_NAME = 253

TYPE_MESSAGE = "spec type must be manual or automated"
ENVIRONMENT_MESSAGE = "the environment field should not be empty when the namespace is non-empty"
SYNC_OPTION_MESSAGE = (
    "the specified sync option in .spec.syncPolicy.syncOptions is either mispelled or is not supported by "
    "GitOpsDeployment"
)
SYNC_OPTIONS = ("CreateNamespace=true", "CreateNamespace=false")


class ApplicationSource(ApiModel):
    """Where the manifests are."""

    repo_url: str = Field(alias="repoURL", max_length=MAX_URL, description="Git repository, https or ssh.")
    path: str = Field(max_length=MAX_PATH, description="Folder inside the repository; neither empty nor '/'.")
    target_revision: str | None = Field(
        default=None, max_length=MAX_REVISION, description="Branch, tag or commit; HEAD if left out."
    )


class ApplicationDestination(ApiModel):
    """Where the manifests go."""

    environment: str | None = Field(
        default=None,
        max_length=MAX_NAME,
        description="Name of a GitOpsDeploymentManagedEnvironment of the same namespace; the own cluster if left out.",
    )
    namespace: str | None = Field(
        default=None,
        max_length=MAX_LABEL,
        description="Namespace on the environment; the resource's own namespace if both are left out.",
    )


class SyncPolicy(ApiModel):
    """How it is synced."""

    sync_options: list[str] | None = Field(
        default=None,
        max_length=10,
        description="CreateNamespace=true or CreateNamespace=false.",
        json_schema_extra=cel(
            rule("self.all(o, o in ['CreateNamespace=true', 'CreateNamespace=false'])", SYNC_OPTION_MESSAGE)
        )
        | {"items": {"type": "string", "maxLength": 64}},
    )


class GitOpsDeploymentSpec(ApiModel):
    """What a user wants deployed."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        json_schema_extra=cel(
            rule("self.type.matches('^(?i)(automated|manual)$')", TYPE_MESSAGE),
            rule(
                "!has(self.destination) || !has(self.destination.namespace) || self.destination.namespace == '' || "
                "(has(self.destination.environment) && self.destination.environment != '')",
                ENVIRONMENT_MESSAGE,
            ),
        ),
    )

    source: ApplicationSource
    destination: ApplicationDestination = Field(default_factory=ApplicationDestination)
    sync_policy: SyncPolicy | None = None
    type: str = Field(
        max_length=16, description="automated: every commit is deployed; manual: by GitOpsDeploymentSyncRun."
    )

    @property
    def automated(self) -> bool:
        """Whether commits are deployed without being asked; anything else is manual."""
        return self.type.lower() == "automated"

    @property
    def sync_options(self) -> list[str]:
        """The user's sync options, none if left out."""
        return (self.sync_policy.sync_options or []) if self.sync_policy else []


class SyncStatus(ApiModel):
    """How what runs compares with Git."""

    status: str = ""
    revision: str | None = None


class HealthStatus(ApiModel):
    """How what was deployed is doing."""

    status: str = ""
    message: str | None = None


class ResourceStatus(ApiModel):
    """One deployed resource."""

    group: str | None = None
    version: str | None = None
    kind: str | None = None
    namespace: str | None = None
    name: str | None = None
    status: str | None = None
    health: HealthStatus | None = None


class ReconciledSource(ApiModel):
    """The source that the engine last compared with."""

    path: str
    repo_url: str = Field(alias="repoURL")
    branch: str


class ReconciledDestination(ApiModel):
    """The destination that the engine last compared with."""

    name: str
    namespace: str


class ReconciledState(ApiModel):
    """What the engine last acted upon."""

    source: ReconciledSource
    destination: ReconciledDestination


class GitOpsDeploymentStatus(ApiModel):
    """What became of it."""

    conditions: list[Condition] | None = None
    health: HealthStatus | None = None
    sync: SyncStatus | None = None
    resources: list[ResourceStatus] | None = None
    operation_state: dict[str, Any] | None = Field(
        default=None,
        json_schema_extra={"x-kubernetes-preserve-unknown-fields": True},
        description="Copy of the engine's operation state.",
    )
    reconciled_state: ReconciledState | None = None

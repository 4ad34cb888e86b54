"""GitOpsDeployment: deploy what a Git repository holds at a path."""

from __future__ import annotations

from typing import Any, Self

from pydantic import ConfigDict, Field
from pydantic.alias_generators import to_camel

from services.common.api_resource import ApiResource
from services.kinds.shared.api_group import GROUP, VERSION
from services.kinds.shared.api_model import CONDITIONS, ApiModel, Condition, cel, rule
from services.kinds.shared.text import MAX_LABEL, MAX_NAME, MAX_PATH, MAX_REVISION, MAX_SYNC_OPTIONS, MAX_URL
from services.kinds.shared.url_rules import REVISION, has_no_password, is_ascii, repository

GITOPS_DEPLOYMENT = ApiResource(GROUP, VERSION, "GitOpsDeployment", "gitopsdeployments")

TYPE_MESSAGE = "spec type must be manual or automated"
ENVIRONMENT_MESSAGE = "the environment field should not be empty when the namespace is non-empty"
SYNC_OPTION_MESSAGE = (
    "the specified sync option in .spec.syncPolicy.syncOptions is either mispelled or is not supported by "
    "GitOpsDeployment"
)
SYNC_OPTIONS = ("CreateNamespace=true", "CreateNamespace=false")


class ApplicationSource(ApiModel):
    """Where the manifests are."""

    repo_url: str = Field(
        alias="repoURL",
        max_length=MAX_URL,
        description="Git repository, https or ssh.",
        json_schema_extra=repository(has_no_password("spec.source.repoURL"), is_ascii("spec.source.repoURL")),
    )
    path: str = Field(max_length=MAX_PATH, description="Folder inside the repository; neither empty nor '/'.")
    target_revision: str | None = Field(
        default=None,
        max_length=MAX_REVISION,
        description="Branch, tag or commit; HEAD if left out.",
        json_schema_extra=cel(REVISION),
    )


class ApplicationDestination(ApiModel):
    """Where the manifests go."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        json_schema_extra=cel(
            rule(
                "!has(self.__namespace__) || self.__namespace__ == '' || "
                "(has(self.environment) && self.environment != '')",
                ENVIRONMENT_MESSAGE,
            )
        ),
    )

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
        max_length=MAX_SYNC_OPTIONS,
        description="CreateNamespace=true or CreateNamespace=false.",
        json_schema_extra=cel(
            rule("self.all(o, o in ['CreateNamespace=true', 'CreateNamespace=false'])", SYNC_OPTION_MESSAGE)
        )
        | {"items": {"type": "string", "maxLength": 64}},
    )


class GitOpsDeploymentSpec(ApiModel):
    """What a user wants deployed."""

    source: ApplicationSource
    destination: ApplicationDestination = Field(default_factory=ApplicationDestination)
    sync_policy: SyncPolicy | None = None
    type: str = Field(
        max_length=16,
        description="automated: every commit is deployed; manual: by GitOpsDeploymentSyncRun.",
        json_schema_extra=cel(rule("self.matches('^(?i)(automated|manual)$')", TYPE_MESSAGE)),
    )

    @property
    def automated(self) -> bool:
        """Whether commits are deployed without being asked; anything else is manual."""
        return self.type.lower() == "automated"

    def without_automation(self) -> Self:
        """The same, synced by nobody."""
        return self.model_copy(update={"type": "manual"})

    @property
    def sync_options(self) -> list[str]:
        """The user's sync options, none if left out."""
        return (self.sync_policy.sync_options or []) if self.sync_policy else []


class SyncStatus(ApiModel):
    """How what runs compares with Git."""

    status: str = Field(default="", description="Synced, OutOfSync or Unknown.")
    revision: str | None = Field(default=None, description="The commit that was compared with.")


class HealthStatus(ApiModel):
    """How what was deployed is doing."""

    status: str = Field(default="", description="Healthy, Progressing, Degraded, Suspended, Missing or Unknown.")
    message: str | None = Field(default=None, description="Why it is not healthy.")


class ResourceStatus(ApiModel):
    """One deployed resource."""

    group: str | None = Field(default=None, description="Its API group; missing for the core group.")
    version: str | None = Field(default=None, description="Its API version.")
    kind: str | None = Field(default=None, description="Its kind.")
    namespace: str | None = Field(default=None, description="Its namespace; missing if it belongs to none.")
    name: str | None = Field(default=None, description="Its name.")
    status: str | None = Field(default=None, description="Synced, OutOfSync or Unknown.")
    health: HealthStatus | None = Field(default=None, description="How it is doing.")


class ReconciledSource(ApiModel):
    """The source that the engine last compared with."""

    path: str = Field(description="Folder in the repository.")
    repo_url: str = Field(alias="repoURL", description="Git repository.")
    branch: str = Field(description="Branch, tag or commit.")


class ReconciledDestination(ApiModel):
    """The destination that the engine last compared with."""

    name: str = Field(description="Name of the environment; empty for the own cluster.")
    namespace: str = Field(description="Namespace there.")


class ReconciledState(ApiModel):
    """What the engine last acted upon."""

    source: ReconciledSource
    destination: ReconciledDestination


class GitOpsDeploymentStatus(ApiModel):
    """What became of it."""

    conditions: list[Condition] | None = Field(default=None, description=CONDITIONS)
    health: HealthStatus | None = None
    sync: SyncStatus | None = None
    resources: list[ResourceStatus] | None = Field(default=None, description="Every deployed resource.")
    operation_state: dict[str, Any] | None = Field(
        default=None,
        json_schema_extra={"x-kubernetes-preserve-unknown-fields": True},
        description="Copy of the engine's operation state.",
    )
    reconciled_state: ReconciledState | None = None

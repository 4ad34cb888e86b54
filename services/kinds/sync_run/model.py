"""GitOpsDeploymentSyncRun: deploy once, now, what a manual GitOpsDeployment names."""

from __future__ import annotations

from pydantic import ConfigDict, Field
from pydantic.alias_generators import to_camel

from services.common.api_resource import ApiResource
from services.kinds.shared.api_group import GROUP, VERSION
from services.kinds.shared.api_model import CONDITIONS, ApiModel, Condition, cel, rule
from services.kinds.shared.text import MAX_NAME, MAX_REVISION
from services.kinds.shared.url_rules import REVISION

SYNC_RUN = ApiResource(GROUP, VERSION, "GitOpsDeploymentSyncRun", "gitopsdeploymentsyncruns")

DEPLOYMENT_NAME_IMMUTABLE = "deployment name field is immutable: changing it from its initial value is not supported"
REVISION_IMMUTABLE = "revision change is not supported: changing it from its initial value is not supported"


class SyncRunSpec(ApiModel):
    """What to sync, and to which revision. Neither changes: another run is another resource."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        # At the object, because a rule of an optional field is not asked when the field comes or goes.
        json_schema_extra=cel(
            rule(
                "(has(self.revisionID) ? self.revisionID : '') == (has(oldSelf.revisionID) ? oldSelf.revisionID : '')",
                REVISION_IMMUTABLE,
            )
        ),
    )

    git_ops_deployment_name: str = Field(
        alias="gitopsDeploymentName",
        max_length=MAX_NAME,
        description="Name of a GitOpsDeployment of the same namespace whose type is manual.",
        json_schema_extra=cel(rule("self == oldSelf", DEPLOYMENT_NAME_IMMUTABLE)),
    )
    revision_id: str | None = Field(
        default=None,
        alias="revisionID",
        max_length=MAX_REVISION,
        description="Commit, branch or tag; if left out, the deployment's targetRevision, or else HEAD.",
        json_schema_extra=cel(REVISION),
    )


class SyncRunOperation(ApiModel):
    """The sync that was started."""

    phase: str | None = Field(default=None, description="Waiting, Running, Terminating, Succeeded, Failed or Error.")
    message: str | None = Field(default=None, description="What the GitOps engine says about it.")
    revision: str | None = Field(default=None, description="The revision that was deployed.")
    started_at: str | None = Field(
        default=None, json_schema_extra={"format": "date-time"}, description="When it began."
    )
    finished_at: str | None = Field(
        default=None, json_schema_extra={"format": "date-time"}, description="When it ended; missing while it runs."
    )


class SyncRunStatus(ApiModel):
    """How the sync went."""

    conditions: list[Condition] | None = Field(default=None, description=CONDITIONS)
    operation: SyncRunOperation | None = None

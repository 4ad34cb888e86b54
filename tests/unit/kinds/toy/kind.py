"""A kind that exists in tests only: all that it takes to add one."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from services.common.addresses import AddressPolicy
from services.common.api_resource import ApiResource
from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT
from services.kinds.shared.api_group import FINALIZER, GROUP, VERSION
from services.kinds.shared.api_model import CONDITIONS, ApiModel, Condition, cel, rule
from services.kinds.shared.catalogue import THROTTLING, Entry
from services.kinds.shared.conditions import Refused, compile_status
from services.kinds.shared.incarnation import refusal_of
from services.kinds.shared.kind import Column, CustomKind, Reference, StatusInputs
from services.kinds.shared.limits import Limits
from services.kinds.shared.resource import PlainResource
from services.kinds.shared.spec_text import spec_of
from services.kinds.shared.text import MAX_NAME

FREEZE = ApiResource(GROUP, VERSION, "GitOpsDeploymentFreeze", "gitopsdeploymentfreezes")
REASON_MESSAGE = "reason must not be empty"

FROZEN = Entry("Frozen", "True", "Frozen", "{reason}", "Nothing is deployed until this is deleted.")
NO_REASON = Entry("Frozen", "False", "NoReason", REASON_MESSAGE, "spec.reason is empty.", "Write one.")


class FreezeSpec(ApiModel):
    """What to freeze, and why."""

    git_ops_deployment_name: str = Field(alias="gitopsDeploymentName", max_length=MAX_NAME, description="Which one.")
    reason: str = Field(max_length=64, description="Why.", json_schema_extra=cel(rule("self != ''", REASON_MESSAGE)))


class FreezeStatus(ApiModel):
    """Whether it holds."""

    conditions: list[Condition] | None = Field(default=None, description=CONDITIONS)


def accept(resource: PlainResource, _policy: AddressPolicy, limits: Limits) -> FreezeSpec:
    if resource.over_quota:
        raise Refused("False", "QuotaExceeded", limits.message(resource.kind))
    spec = spec_of(FreezeSpec, resource)
    if not spec.reason:
        raise Refused(NO_REASON.status, NO_REASON.reason, NO_REASON.message)
    return spec


def freeze_status(inputs: StatusInputs) -> str:
    refusal = refusal_of(inputs.resource)
    if refusal is not None:
        state = (refusal.status, refusal.reason, refusal.message)
    else:
        reason = spec_of(FreezeSpec, inputs.resource).reason
        state = (FROZEN.status, FROZEN.reason, FROZEN.text(reason=reason))
    return compile_status(inputs.previous, {FROZEN.type: state}, inputs.at)


KIND = CustomKind(
    resource=FREEZE,
    default_quota=2,
    description="Keeps a GitOpsDeployment as it is.",
    purpose="keeps a GitOpsDeployment as it is",
    example=Path(__file__).with_name("example.yaml"),
    spec=FreezeSpec,
    status=FreezeStatus,
    columns=(Column("Reason", ".spec.reason"),),
    catalogue=(FROZEN, NO_REASON, *THROTTLING),
    reference=Reference("gitopsDeploymentName", GITOPS_DEPLOYMENT),
    finalizer=FINALIZER,
    audited=True,
    accept_spec=accept,
    compile_status=freeze_status,
)

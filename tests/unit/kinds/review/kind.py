"""A kind that exists in tests only and whose resources another controller answers, in their status: a projection."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from services.common.addresses import AddressPolicy
from services.common.api_resource import ApiResource
from services.common.errors import Permanent
from services.kinds.shared.api_group import FINALIZER, GROUP, VERSION
from services.kinds.shared.api_model import CONDITIONS, ApiModel, Condition
from services.kinds.shared.catalogue import THROTTLING, Entry
from services.kinds.shared.conditions import Refused, compile_status
from services.kinds.shared.incarnation import refusal_of
from services.kinds.shared.kind import Column, CustomKind, StatusInputs
from services.kinds.shared.limits import Limits
from services.kinds.shared.projection import Projection, metadata_of, status_of
from services.kinds.shared.resource import PlainResource
from services.kinds.shared.spec_text import spec_of
from services.kinds.shared.text import MAX_NAME

REVIEW = ApiResource(GROUP, VERSION, "GitOpsDeploymentReview", "gitopsdeploymentreviews")
LABELS = "review.example.com"
TEAM, TICKET = f"{LABELS}/team", "review.example.com/ticket"

AWAITED = Entry("Reviewed", "Unknown", "Awaited", "", "Nobody has answered yet.")
ANSWERED = Entry("Reviewed", "True", "Answered", "{detail}", "There is an answer.")
UNREADABLE = Entry("Reviewed", "False", "Unreadable", "{detail}", "There is an answer that is none.")


class ReviewSpec(ApiModel):
    """What to look at."""

    git_ops_deployment_name: str = Field(alias="gitopsDeploymentName", max_length=MAX_NAME, description="Which one.")


class Verdict(ApiModel):
    """What another controller answers."""

    outcome: str = Field(max_length=1_000_000, description="In a word.")
    remarks: list[str] | None = Field(default=None, max_length=100, description="In more words.")


class ReviewStatus(ApiModel):
    """Ours: the conditions and the round; the other controller's: verdict and note."""

    conditions: list[Condition] | None = Field(default=None, description=CONDITIONS)
    round: int | None = Field(default=None, description="How often it was asked for.")
    verdict: Verdict | None = Field(default=None, description="The answer.")
    note: str | None = Field(default=None, max_length=1024, description="What nobody but the other controller reads.")


def accept(resource: PlainResource, _policy: AddressPolicy, limits: Limits) -> ReviewSpec:
    if resource.over_quota:
        raise Refused("False", "QuotaExceeded", limits.message(resource.kind))
    return spec_of(ReviewSpec, resource)


def review_status(inputs: StatusInputs) -> str:
    row, refusal = inputs.resource, refusal_of(inputs.resource)
    if refusal is not None:
        return compile_status(
            inputs.previous, {ANSWERED.type: (refusal.status, refusal.reason, refusal.message)}, inputs.at
        )
    try:
        state = _state(row)
    except Permanent as error:
        state = (UNREADABLE.status, UNREADABLE.reason, str(error))
    return compile_status(inputs.previous, {ANSWERED.type: state}, inputs.at)


def _state(row: PlainResource) -> tuple[str, str, str]:
    meta, verdict = metadata_of(row), status_of(ReviewStatus, row).verdict
    if verdict is None:
        return AWAITED.state
    owners = ", ".join(f"{owner.kind} {owner.name}" for owner in meta.owner_references)
    asked = f"{meta.labels.get(TEAM, 'nobody')} for {owners or 'itself'}, ticket {meta.annotations.get(TICKET, 'none')}"
    return (ANSWERED.status, ANSWERED.reason, f"{verdict.outcome}; asked by {asked}")


KIND = CustomKind(
    resource=REVIEW,
    default_quota=2,
    description="Asks somebody to look at a GitOpsDeployment.",
    purpose="asks somebody to look at a GitOpsDeployment",
    example=Path(__file__).with_name("example.yaml"),
    spec=ReviewSpec,
    status=ReviewStatus,
    columns=(Column("Deployment", ".spec.gitopsDeploymentName"),),
    catalogue=(AWAITED, ANSWERED, UNREADABLE, *THROTTLING),
    projection=Projection(
        labels=lambda key: LABELS in key,
        annotations=frozenset({TICKET}),
        owner_references=True,
        status_members=frozenset({"verdict"}),
    ),
    own_status=frozenset({"conditions", "round"}),
    finalizer=FINALIZER,
    audited=True,
    accept_spec=accept,
    compile_status=review_status,
)

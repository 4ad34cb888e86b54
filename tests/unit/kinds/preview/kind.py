"""A kind that exists in tests only and has child objects: all that it takes to add one."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from services.common.addresses import AddressPolicy
from services.common.api_resource import ApiResource
from services.common.messages import ChildKind
from services.kinds.shared.api_group import APPSTUDIO_LABELS, FINALIZER, GROUP, VERSION
from services.kinds.shared.api_model import CONDITIONS, ApiModel, Condition
from services.kinds.shared.catalogue import THROTTLING, Entry
from services.kinds.shared.child_objects import ChildInputs, ChildObject
from services.kinds.shared.conditions import Refused, compile_status
from services.kinds.shared.incarnation import refusal_of
from services.kinds.shared.kind import Column, CustomKind, StatusInputs
from services.kinds.shared.limits import Limits
from services.kinds.shared.resource import PlainResource
from services.kinds.shared.spec_text import spec_of
from services.kinds.shared.text import MAX_NAME, MAX_URL

PREVIEW = ApiResource(GROUP, VERSION, "GitOpsDeploymentPreview", "gitopsdeploymentpreviews")
LABEL = f"{APPSTUDIO_LABELS}/preview"

SHOWN = Entry("Shown", "True", "Shown", "", "Its deployments are made.")
NO_DEPLOYMENTS = Entry("Shown", "False", "NoDeployments", "there is nothing to show", "spec.deployments is empty.")


class PreviewSpec(ApiModel):
    """What to deploy, and to which cluster."""

    deployments: list[str] = Field(max_length=10, description="Names.")
    cluster: str | None = Field(default=None, max_length=MAX_URL, description="URL of its API server.")
    secret: str | None = Field(default=None, max_length=MAX_NAME, description="A Secret to copy.")


class PreviewStatus(ApiModel):
    """Whether it is made."""

    conditions: list[Condition] | None = Field(default=None, description=CONDITIONS)


def accept(resource: PlainResource, _policy: AddressPolicy, limits: Limits) -> PreviewSpec:
    if resource.over_quota:
        raise Refused("False", "QuotaExceeded", limits.message(resource.kind))
    spec = spec_of(PreviewSpec, resource)
    if not spec.deployments:
        raise Refused(*NO_DEPLOYMENTS.state)
    return spec


def child_objects(inputs: ChildInputs) -> tuple[ChildObject, ...]:
    spec, owner = PreviewSpec.model_validate_json(inputs.resource.accepted), inputs.resource.name
    labels = {LABEL: owner}
    source = {"repoURL": "https://git.example.com/team-a/config.git", "path": owner}
    deployments = [
        ChildObject(ChildKind.DEPLOYMENT, name, {"type": "automated", "source": source}, labels)
        for name in spec.deployments
    ]
    others = []
    if spec.cluster is not None:
        cluster = {"apiURL": spec.cluster, "credentialsSecret": "kubeconfig", "allowInsecureSkipTLSVerify": False}
        others.append(ChildObject(ChildKind.MANAGED_ENVIRONMENT, f"preview-{owner}", cluster, labels))
    if spec.secret is not None:
        copy = {"from": spec.secret, "type": "managed-gitops.redhat.com/managed-environment"}
        others.append(ChildObject(ChildKind.SECRET_COPY, f"copy-{owner}", copy, labels))
    return (*deployments, *others)


def preview_status(inputs: StatusInputs) -> str:
    refusal = refusal_of(inputs.resource)
    state = SHOWN.state if refusal is None else (refusal.status, refusal.reason, refusal.message)
    return compile_status(inputs.previous, {SHOWN.type: state}, inputs.at)


KIND = CustomKind(
    resource=PREVIEW,
    default_quota=200,
    description="Deployments that are looked at for a while.",
    purpose="deploys something to be looked at",
    example=Path(__file__).with_name("example.yaml"),
    spec=PreviewSpec,
    status=PreviewStatus,
    columns=(Column("Cluster", ".spec.cluster"),),
    catalogue=(SHOWN, NO_DEPLOYMENTS, *THROTTLING),
    finalizer=FINALIZER,
    audited=True,
    accept_spec=accept,
    child_objects=child_objects,
    compile_status=preview_status,
)

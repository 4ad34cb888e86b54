"""A kind that exists in tests only and becomes objects of an engine: all that it takes to add one."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from services.common.addresses import AddressPolicy
from services.common.api_resource import SECRET, ApiResource
from services.kinds.repository_credential.model import CREDENTIAL_SECRET
from services.kinds.repository_credential.validation import repository_use
from services.kinds.shared.api_group import FINALIZER, GROUP, VERSION
from services.kinds.shared.api_model import CONDITIONS, ApiModel, Condition
from services.kinds.shared.catalogue import THROTTLING, Entry
from services.kinds.shared.conditions import Refused, compile_status
from services.kinds.shared.connections import ConnectionInputs, Repository
from services.kinds.shared.incarnation import refusal_of
from services.kinds.shared.kind import CheckReasons, Column, CustomKind, Reference, StatusInputs
from services.kinds.shared.limits import Limits
from services.kinds.shared.resource import PlainResource
from services.kinds.shared.spec_text import parsed, spec_of
from services.kinds.shared.text import MAX_NAME, MAX_URL

MIRROR = ApiResource(GROUP, VERSION, "GitOpsDeploymentMirror", "gitopsdeploymentmirrors")

NO_LOGIN = Entry("Mirrored", "False", "NoLogin", "there is no login '{secret}'", "Its Secret cannot be used.")
CHECKING = Entry("Mirrored", "Unknown", "Checking", "", "It is being tried.")
MIRRORED = Entry("Mirrored", "True", "Mirrored", "", "Deployments may use it.")
UNREACHABLE = Entry("Mirrored", "False", "Unreachable", "{detail}", "It did not answer.")


class MirrorSpec(ApiModel):
    """A copy of a repository, and the login to it."""

    url: str = Field(max_length=MAX_URL, description="Where it is.")
    login: str = Field(max_length=MAX_NAME, description="Name of a Secret.")


class MirrorStatus(ApiModel):
    """Whether it can be used."""

    conditions: list[Condition] | None = Field(default=None, description=CONDITIONS)


def accept(resource: PlainResource, _policy: AddressPolicy, limits: Limits) -> MirrorSpec:
    if resource.over_quota:
        raise Refused("False", "QuotaExceeded", limits.message(resource.kind))
    return spec_of(MirrorSpec, resource)


def connections(inputs: ConnectionInputs) -> tuple[Repository]:
    return (Repository(MirrorSpec.model_validate_json(inputs.spec).url, inputs.secret),)


def mirror_status(inputs: StatusInputs) -> str:
    refusal, check = refusal_of(inputs.resource), inputs.check
    if refusal is not None:
        state = (refusal.status, refusal.reason, refusal.message)
    elif check is None or check.digest != inputs.digest:
        state = CHECKING.state
    elif check.reason == MIRRORED.reason:
        state = MIRRORED.state
    else:
        state = (UNREACHABLE.status, UNREACHABLE.reason, UNREACHABLE.text(detail=check.message))
    return compile_status(inputs.previous, {MIRRORED.type: state}, inputs.at)


KIND = CustomKind(
    resource=MIRROR,
    default_quota=2,
    description="A copy of a repository.",
    purpose="a copy of a repository",
    example=Path(__file__).with_name("example.yaml"),
    spec=MirrorSpec,
    status=MirrorStatus,
    columns=(Column("URL", ".spec.url"),),
    catalogue=(NO_LOGIN, CHECKING, MIRRORED, UNREACHABLE, *THROTTLING),
    reference=Reference(
        "login",
        SECRET,
        CREDENTIAL_SECRET,
        dict.fromkeys(("over quota", "awaited", "other type", "omitted", "unnamed", "missing"), NO_LOGIN.state)
        | {"missing": (NO_LOGIN.status, "SecretNotFound", NO_LOGIN.message)},
        lambda spec: repository_use(parsed(MirrorSpec, spec).url),
    ),
    finalizer=FINALIZER,
    audited=True,
    accept_spec=accept,
    connections=connections,
    check_reasons=CheckReasons(MIRRORED.reason, UNREACHABLE.reason),
    compile_status=mirror_status,
)

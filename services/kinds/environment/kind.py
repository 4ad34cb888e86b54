"""Registry entry of Environment."""

from __future__ import annotations

from pathlib import Path

from services.common.api_resource import SECRET
from services.common.messages import UnownedKind
from services.kinds.environment.catalogue import ENTRIES, EXPIRES_AT
from services.kinds.environment.model import ENVIRONMENT, NAME_RULE, EnvironmentSpec, EnvironmentStatus
from services.kinds.environment.rules import CHILDREN, accept
from services.kinds.environment.status import environment_status
from services.kinds.shared.catalogue import ERROR
from services.kinds.shared.kind import Column, CustomKind, Reference, condition_column
from services.kinds.shared.projection import Projection

KIND = CustomKind(
    resource=ENVIRONMENT,
    default_quota=100,
    description="Where components of applications are deployed to, and what is promoted to it after which other one.",
    purpose="a place that the components of applications are promoted to",
    example=Path(__file__).with_name("example.yaml"),
    rules=(NAME_RULE,),
    spec=EnvironmentSpec,
    status=EnvironmentStatus,
    columns=(
        Column("Strategy", ".spec.deploymentStrategy"),
        Column("Parent", ".spec.parentEnvironment"),
        Column("Claim", ".spec.configuration.target.deploymentTargetClaim.claimName"),
        Column("Expires", f".metadata.annotations.{EXPIRES_AT.replace('.', chr(92) + '.')}", is_wide=True),
        condition_column("Error", ERROR, "status"),
        condition_column("Message", ERROR, "message", is_wide=True),
    ),
    short_names=("env",),
    catalogue=ENTRIES,
    reference=Reference("unstableConfigurationFields.kubernetesCredentials.clusterCredentialsSecret", SECRET),
    audited=True,
    accept_spec=accept,
    projection=Projection(annotations=frozenset({EXPIRES_AT})),
    children=CHILDREN,
    unowned=(UnownedKind.ENVIRONMENT,),
    compile_status=environment_status,
)

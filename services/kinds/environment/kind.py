"""Registry entry of Environment."""

from __future__ import annotations

from pathlib import Path

from services.common.api_resource import SECRET
from services.kinds.environment.catalogue import ENTRIES
from services.kinds.environment.model import ENVIRONMENT, NAME_RULE, EnvironmentSpec, EnvironmentStatus
from services.kinds.environment.rules import CHILDREN, accept
from services.kinds.environment.status import environment_status
from services.kinds.shared.catalogue import ERROR
from services.kinds.shared.kind import Column, CustomKind, Reference, condition_column

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
        condition_column("Error", ERROR, "status"),
        condition_column("Message", ERROR, "message", is_wide=True),
    ),
    short_names=("env",),
    catalogue=ENTRIES,
    reference=Reference("unstableConfigurationFields.kubernetesCredentials.clusterCredentialsSecret", SECRET),
    audited=True,
    accept_spec=accept,
    children=CHILDREN,
    compile_status=environment_status,
)

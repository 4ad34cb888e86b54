"""Registry entry of GitOpsDeploymentManagedEnvironment."""

from __future__ import annotations

from pathlib import Path

from services.kinds.managed_environment import catalogue
from services.kinds.managed_environment.model import (
    MANAGED_ENVIRONMENT,
    ManagedEnvironmentSpec,
    ManagedEnvironmentStatus,
)
from services.kinds.managed_environment.rules import SUCCEEDED, connections, destinations
from services.kinds.managed_environment.status import environment_status
from services.kinds.managed_environment.validation import SECRET_REFERENCE, accept
from services.kinds.shared.api_group import FINALIZER
from services.kinds.shared.kind import CheckReasons, Column, CustomKind, WaitExample, condition_column
from services.kinds.shared.projection import Projection

KIND = CustomKind(
    resource=MANAGED_ENVIRONMENT,
    default_quota=100,
    description="A cluster, or some namespaces of one, that GitOpsDeployments of the same namespace may go to.",
    purpose="another cluster to deploy to",
    example=Path(__file__).with_name("example.yaml"),
    spec=ManagedEnvironmentSpec,
    status=ManagedEnvironmentStatus,
    columns=(
        condition_column("Connected", catalogue.CONNECTION, "status"),
        condition_column("Reason", catalogue.CONNECTION, "reason"),
        Column("API URL", ".spec.apiURL", is_wide=True),
        condition_column("Message", catalogue.CONNECTION, "message", is_wide=True),
    ),
    short_names=("genv",),
    waits=(WaitExample("deployments can go there", f"condition={catalogue.CONNECTION}"),),
    catalogue=catalogue.ENTRIES,
    reference=SECRET_REFERENCE,
    projection=Projection(owner_references=True),
    finalizer=FINALIZER,
    audited=True,
    accept_spec=accept,
    connections=connections,
    destinations=destinations,
    check_reasons=CheckReasons(SUCCEEDED, catalogue.NOT_CREATED.reason),
    compile_status=environment_status,
)

"""Registry entry of SnapshotEnvironmentBinding."""

from __future__ import annotations

from pathlib import Path

from services.kinds.shared.kind import Column, DefinedKind
from services.kinds.shared.reconciled import RECONCILED
from services.kinds.snapshot_environment_binding.catalogue import DEPLOYED, ENTRIES
from services.kinds.snapshot_environment_binding.model import BINDING, BindingSpec, BindingStatus

KIND = DefinedKind(
    resource=BINDING,
    description="Deploys the components of an application, as a snapshot has them, to an environment.",
    purpose="deploys a snapshot to an environment",
    example=Path(__file__).with_name("example.yaml"),
    spec=BindingSpec,
    status=BindingStatus,
    columns=(
        Column("Application", ".spec.application"),
        Column("Environment", ".spec.environment"),
        Column("Snapshot", ".spec.snapshot"),
        Column("Deployed", f".status.componentDeploymentConditions[?(@.type=='{DEPLOYED}')].message"),
        Column("Reason", f".status.bindingConditions[?(@.type=='{RECONCILED}')].reason"),
        Column("Message", f".status.bindingConditions[?(@.type=='{RECONCILED}')].message", is_wide=True),
    ),
    short_names=("aseb", "binding"),
    catalogue=ENTRIES,
)

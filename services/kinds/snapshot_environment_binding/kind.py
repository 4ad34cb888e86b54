"""Registry entry of SnapshotEnvironmentBinding."""

from __future__ import annotations

from pathlib import Path

from services.common.messages import ChildKind, UnownedKind
from services.kinds.shared.api_group import is_appstudio_label
from services.kinds.shared.kind import Column, CustomKind
from services.kinds.shared.projection import Projection
from services.kinds.shared.reconciled import RECONCILED
from services.kinds.snapshot_environment_binding.catalogue import DEPLOYED, ENTRIES
from services.kinds.snapshot_environment_binding.model import BINDING, REPORTED_MEMBERS, BindingSpec, BindingStatus
from services.kinds.snapshot_environment_binding.rules import accept
from services.kinds.snapshot_environment_binding.status import BINDING_CONDITIONS, OWN_MEMBERS, binding_status

KIND = CustomKind(
    resource=BINDING,
    default_quota=500,
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
    projection=Projection(labels=is_appstudio_label, status_members=REPORTED_MEMBERS),
    own_status=OWN_MEMBERS,
    conditions=BINDING_CONDITIONS,
    audited=True,
    accept_spec=accept,
    children=(ChildKind.DEPLOYMENT,),
    unowned=(UnownedKind.BINDING,),
    compile_status=binding_status,
)

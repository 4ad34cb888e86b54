"""Registry entry of Snapshot."""

from __future__ import annotations

from pathlib import Path

from services.common.messages import UnownedKind
from services.kinds.shared.catalogue import ERROR
from services.kinds.shared.kind import Column, CustomKind
from services.kinds.shared.projection import Projection
from services.kinds.snapshot.catalogue import ENTRIES
from services.kinds.snapshot.images import image_entries
from services.kinds.snapshot.model import SNAPSHOT, SnapshotSpec, SnapshotStatus
from services.kinds.snapshot.status import QUOTA_CONDITIONS, snapshot_status

KIND = CustomKind(
    resource=SNAPSHOT,
    default_quota=10_000,
    description="The images of an application's components that were tested together. They do not change.",
    purpose="the images of an application's components",
    example=Path(__file__).with_name("example.yaml"),
    spec=SnapshotSpec,
    status=SnapshotStatus,
    columns=(
        Column("Application", ".spec.application"),
        Column("Name Shown", ".spec.displayName", is_wide=True),
        Column("Quota", f".status.{QUOTA_CONDITIONS}[?(@.type=='{ERROR}')].message", is_wide=True),
    ),
    short_names=("as",),
    catalogue=ENTRIES,
    own_status=frozenset({QUOTA_CONDITIONS}),
    conditions=QUOTA_CONDITIONS,
    compile_status=snapshot_status,
    is_dormant=True,
    # Whose it is, and which images are others than in another one: these and artifacts are for the build service.
    projection=Projection(spec_members=frozenset({"application"}), made_members={"images": image_entries}),
    unowned=(UnownedKind.PROMOTION_RUN,),
)

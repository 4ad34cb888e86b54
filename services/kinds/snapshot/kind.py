"""Registry entry of Snapshot."""

from __future__ import annotations

from pathlib import Path

from services.kinds.shared.kind import Column, DefinedKind
from services.kinds.snapshot.catalogue import ENTRIES
from services.kinds.snapshot.model import SNAPSHOT, SnapshotSpec, SnapshotStatus

KIND = DefinedKind(
    resource=SNAPSHOT,
    description="The images of an application's components that were tested together. They do not change.",
    purpose="the images of an application's components",
    example=Path(__file__).with_name("example.yaml"),
    spec=SnapshotSpec,
    status=SnapshotStatus,
    columns=(
        Column("Application", ".spec.application"),
        Column("Components", ".spec.components[*].name", is_wide=True),
        Column("Name Shown", ".spec.displayName", is_wide=True),
    ),
    short_names=("as",),
    catalogue=ENTRIES,
)

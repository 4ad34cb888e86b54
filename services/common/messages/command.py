"""Commands: what the watcher saw, or an operator asks for. Read by the planner."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class ResourceChanged:
    """A resource exists with this desired state."""

    api_version: str
    kind: str
    name: str
    uid: str
    resource_version: str
    generation: int
    epoch: int
    """Resync during which it was seen, milliseconds since 1970."""
    deleting: bool
    finalizers: tuple[str, ...]
    actor: str
    spec: str
    """The spec as JSON text: it may be anything a user wrote."""
    spec_omitted: str = ""
    """Why the spec was left out (``spec`` is then ``{}``), for the user; empty if it is there."""
    created_at: int = 0
    """When it was created: milliseconds since 1970, in whole seconds; 0 if unknown."""
    secret_type: str = ""
    """Type of the Secret that the spec names, as found at this change; empty if there is none.

    If it is to be copied, and too large for that, ``TOO_LARGE`` of ``services/kinds/secret/rules.py``.
    """
    secret_binding: str = ""
    """What that Secret may be used for, sealed: JSON text as ``services/kinds/shared/secret_binding.py`` has it."""
    target_uid: str = ""
    """uid of the GitOpsDeployment that a GitOpsDeploymentSyncRun names, as found at this change; empty if none."""
    target_generation: int = 0
    """Its generation then: what the run is meant to sync."""
    held_back_ms: int = 0
    """How long the watcher held the change back because its tenant changes too much at a time."""
    metadata: str = ""
    """What its kind declares of the metadata, as JSON in its form; empty if that is nothing."""
    metadata_omitted: str = ""
    """Why that was left out (``metadata`` is then ``{}``), for the user; empty if it is there."""
    status: str = ""
    """The members of the status that its kind declares, because other controllers write them, likewise."""
    status_omitted: str = ""
    """Likewise."""
    recalled_status: str = ""
    """The status that we have written to it, as JSON, if its kind recalls it; empty if it has none."""
    named_class: str = ""
    """The DeploymentTargetClass that it names, as found at this change: JSON of its version and spec; empty if there is
    none."""
    secret_version: str = ""
    """resourceVersion of that Secret, if its kind has the Secret's content followed; ``absent`` if there is none."""


@dataclass(frozen=True, slots=True)
class ResourceGone:
    """A resource no longer exists."""

    kind: str
    name: str
    uid: str
    resource_version: str


@dataclass(frozen=True, slots=True)
class ResyncCompleted:
    """Every resource of ``kind`` in the source was sent since ``epoch`` began; others no longer exist."""

    kind: str
    epoch: int
    approved: str = ""
    """Digest of what an operator was shown that this would remove, and has approved; empty: the watcher sent it."""


@dataclass(frozen=True, slots=True)
class LookAgain:
    """An operator asks to compile anew what follows from a tenant's resources, though none of them has changed."""

    kind: str
    """Resources of this kind; empty: all of the tenant's."""


@dataclass(frozen=True, slots=True)
class OrphansApproved:
    """An operator has seen which orphans of an instance an agent keeps, and wants exactly these removed."""

    engine_instance_id: str
    digest: str
    """Of what the operator was shown."""


CommandEvent = ResourceChanged | ResourceGone | ResyncCompleted | LookAgain | OrphansApproved


@dataclass(frozen=True, slots=True)
class Command:
    """One event of a workspace cluster."""

    source: str
    workspace: str
    namespace: str
    seen_at: datetime
    event: CommandEvent
    namespace_uid: str = ""
    """Which namespace of that name a changed resource is in: a name may be given out again. Empty: not told."""
    namespace_created_at: int = 0
    """Milliseconds since 1970, in whole seconds."""

"""Commands: what the watcher saw, or what an operator requests. The planner reads them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class ResourceChanged:
    """A resource exists, with this spec."""

    api_version: str
    kind: str
    name: str
    uid: str
    resource_version: str
    generation: int
    epoch: int
    """The list during which it was sent, in milliseconds since 1970."""
    deleting: bool
    finalizers: tuple[str, ...]
    actor: str
    spec: str
    """The spec as JSON text. A user may have written anything."""
    spec_omitted: str = ""
    """Why the spec was left out (``spec`` is then ``{}``), for the user; empty if it was not."""
    created_at: int = 0
    """When it was created: milliseconds since 1970, in whole seconds; 0 if unknown."""
    secret_type: str = ""
    """Type of the Secret that the spec names, as found when this was sent; empty if there is none. ``TOO_LARGE`` of
    ``services/kinds/secret/rules.py`` if the Secret is copied, and too large for that."""
    secret_binding: str = ""
    """What that Secret may be used for, sealed: JSON text as in ``services/kinds/shared/secret_binding.py``."""
    target_uid: str = ""
    """uid of the GitOpsDeployment that a GitOpsDeploymentSyncRun names, as found when this was sent; empty if none."""
    target_generation: int = 0
    """That GitOpsDeployment's generation then, which the run should sync."""
    held_back_ms: int = 0
    """How long the watcher held the change back because its tenant changed too much."""
    metadata: str = ""
    """The declared parts of the metadata, as JSON; empty if there are none."""
    metadata_omitted: str = ""
    """Why the metadata was left out (``metadata`` is then ``{}``), for the user; empty if it was not."""
    status: str = ""
    """The declared members of the status, which other controllers write, as JSON; empty if there are none."""
    status_omitted: str = ""
    """Why the status was left out (``status`` is then ``{}``), for the user; empty if it was not."""
    recalled_status: str = ""
    """The status that we have written, as JSON, if the kind recalls it; empty if there is none."""
    named_class: str = ""
    """The DeploymentTargetClass that it names, as found when this was sent: JSON of its version and spec; empty if
    there is none."""
    secret_version: str = ""
    """resourceVersion of that Secret, if the kind follows the Secret's content; ``absent`` if there is none."""


@dataclass(frozen=True, slots=True)
class ResourceGone:
    """A resource no longer exists."""

    kind: str
    name: str
    uid: str
    resource_version: str


@dataclass(frozen=True, slots=True)
class ResyncCompleted:
    """All resources of ``kind`` in the source were sent since ``epoch`` began. Others do not exist any more."""

    kind: str
    epoch: int
    approved: str = ""
    """Digest of the removals that an operator was shown and has approved; empty: the watcher sent the marker."""


@dataclass(frozen=True, slots=True)
class LookAgain:
    """An operator requests that everything is compiled again from a tenant's resources, although none has changed."""

    kind: str
    """Only resources of this kind; empty: all of the tenant's."""


@dataclass(frozen=True, slots=True)
class OrphansApproved:
    """An operator has seen which orphans an agent keeps, and approves the removal of exactly these."""

    engine_instance_id: str
    digest: str
    """Digest of what the operator was shown."""


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
    """uid of the changed resource's namespace, because a name may be used again; empty: unknown."""
    namespace_created_at: int = 0
    """Milliseconds since 1970, in whole seconds."""

"""The Secret that a resource names, among those of its tenant."""

from __future__ import annotations

from services.planner.draft import Draft
from services.planner.kinds.names import SECRET
from services.planner.rows import Resource


def secret_of(draft: Draft, resource: Resource) -> Resource | None:
    """The Secret that ``resource`` names; None if there is none of a type that is followed."""
    namesakes = draft.resource_namesakes(resource.tenant_id, SECRET, resource.refers_to)
    return next((secret for secret in namesakes if secret.present), None)

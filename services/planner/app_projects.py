"""What becomes of a tenant's AppProject, and of the tenant, after a batch. Called by ``compile``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Literal
from uuid import UUID

from services.planner.draft import Draft
from services.planner.engines import argocd
from services.planner.rows import Deployment, EngineRow, Project


class TenantProject:
    """One tenant's AppProject.

    It lists the repositories of all Applications that exist, those being deleted included: Argo CD needs the project
    until the last of them is gone.
    """

    def __init__(self, draft: Draft, tenant_id: UUID, deployments: Iterable[Deployment], finished: set[UUID]) -> None:
        """``deployments``: those of the tenant that the draft knows; ``finished``: those that it drops."""
        self.tenant_id, self.home, self.cause = tenant_id, draft.home(tenant_id), draft.tenant_causes[tenant_id]
        self.before = draft.state.projects.get(tenant_id)
        counts = _counted(draft, tenant_id, deployments, finished)
        self.repositories = {repository for repository in counts if repository is not None}
        self.removed = (
            self.before is not None
            and not self.before.wanted
            and not self.repositories
            and tenant_id in draft.projects_removed
        )
        self.tenant_is_empty = not counts and (self.before is None or self.removed)

    def row(self) -> EngineRow | None:
        """The row to write, if it differs from the one there is."""
        if not self.repositories and (self.before is None or not self.before.wanted):
            return None
        desired: Literal["present", "absent"] = "present" if self.repositories else "absent"
        row = argocd.project_row(self.home, argocd.app_project(self.home, self.repositories), desired, self.cause)
        return None if self.before == Project(wanted=desired == "present", digest=row.digest) else row


def _counted(
    draft: Draft, tenant_id: UUID, deployments: Iterable[Deployment], finished: set[UUID]
) -> Counter[str | None]:
    """All deployments of the tenant by repository; those without an Application under None."""
    counts = Counter(draft.state.repositories.get(tenant_id, {}))
    for now in deployments:
        before = draft.state.deployments.get(now.id)
        if before is not None:
            counts[before.repository] -= 1
        if now.id not in finished:
            counts[now.repository] += 1
    return +counts

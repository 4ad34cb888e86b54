"""Every condition that users can meet, by kind: what it looks like, what it means and what to do about it.

The planner takes its texts from here and the documentation for users is written from here, so they cannot differ.
"""

from __future__ import annotations

from collections.abc import Mapping

from services.common.api import names
from services.common.api.catalogue import credential, deployment, environment, sync_run
from services.common.api.catalogue.entry import Entry

CATALOGUE: Mapping[str, tuple[Entry, ...]] = {
    names.GITOPS_DEPLOYMENT.kind: deployment.ENTRIES,
    names.MANAGED_ENVIRONMENT.kind: environment.ENTRIES,
    names.REPOSITORY_CREDENTIAL.kind: credential.ENTRIES,
    names.SYNC_RUN.kind: sync_run.ENTRIES,
}
"""In the order in which the documentation lists them."""

__all__ = ["CATALOGUE", "Entry"]

"""Validation of a GitOpsDeploymentSyncRun."""

from __future__ import annotations

from services.kinds.shared.catalogue import Reason
from services.kinds.shared.conditions import Refused
from services.kinds.shared.resource import PlainResource
from services.kinds.shared.spec_text import spec_of
from services.kinds.shared.text import cleaned
from services.kinds.sync_run import catalogue as texts
from services.kinds.sync_run.model import SyncRunSpec


def accept(resource: PlainResource) -> SyncRunSpec:
    """The spec of ``resource``, with unwanted characters removed. Raises Refused."""
    spec = spec_of(SyncRunSpec, resource)
    revision = cleaned(spec.revision_id)
    if revision.startswith("-"):
        raise Refused("True", Reason.INVALID_SPEC, texts.REVISION_REFUSED.message)
    name = spec.git_ops_deployment_name.replace("\0", "")
    return SyncRunSpec(git_ops_deployment_name=name, revision_id=revision or None)

"""The rights that a watcher needs in its workspace cluster."""

from __future__ import annotations

from services.common.kubernetes import LEASE, Access
from services.watcher.followed_kinds import FollowedKind

READING = ("get", "list", "watch")
WRITING = ("patch", "patch/status")
LEADING = ("get", "create", "patch")


def access_to(kind: FollowedKind) -> Access:
    """What is done with resources of ``kind``; Secrets are only ever read."""
    is_written, plural = kind.has_status, kind.resource.plural
    rights = f"{', '.join((*READING, 'patch') if is_written else READING)} on {plural}"
    status = f" and patch on {plural}/status" if is_written else ""
    return Access(
        kind.resource,
        (*READING, *WRITING) if is_written else READING,
        remedy=f'grant the watcher\'s user a ClusterRole for apiGroup "{kind.resource.group}": {rights}{status}',
        not_served="run 'gitopsctl crds apply'",
        listed=kind.parts,
        metadata_only=kind.metadata_only,
    )


def access_to_lease(namespace: str) -> Access:
    """What is done with the lease of those who may lead."""
    return Access(
        LEASE,
        LEADING,
        remedy=f"grant the watcher's user a Role in namespace {namespace} for apiGroup {LEASE.group}: "
        f"{', '.join(LEADING)} on {LEASE.plural}, or set LEADER_ELECTION=false",
        not_served="set LEADER_ELECTION=false",
        namespace=namespace,
        listed=(),
    )

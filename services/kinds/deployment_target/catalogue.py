"""Conditions of a DeploymentTarget."""

from __future__ import annotations

from services.kinds.shared.catalogue import ERROR, PARKED, QUOTA_EXCEEDED, THROTTLING, Entry, error

NO_ERROR = Entry(ERROR, "False", "Success", "", "Nothing is wrong; status.phase says who has it.")
NOT_TERMINATED = error(
    "SpaceRequest '{request}' of this DeploymentTarget could not be terminated",
    "The target is being deleted, and the namespace that was made for it does not go: phase is Failed. It is tried "
    "again.",
    "Ask your operators.",
)

ENTRIES = (NO_ERROR, NOT_TERMINATED, QUOTA_EXCEEDED, *PARKED, *THROTTLING)

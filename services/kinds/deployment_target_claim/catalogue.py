"""Conditions of a DeploymentTargetClaim."""

from __future__ import annotations

from services.kinds.shared.catalogue import ERROR, PARKED, QUOTA_EXCEEDED, THROTTLING, Entry, error

MINUTES = 5
"""How long a SpaceRequest, or a provisioner of others, may take before the claim says so."""
STUCK_MINUTES = 2
"""How long one may take to go."""
NO_REASON = "its controller has not said why"
NOT_MADE = "it was not made; this cluster may not provide SpaceRequests, or refuses this one"

NO_ERROR = Entry(ERROR, "False", "Success", "", "Nothing is wrong; status.phase says how far it is.")
ALREADY_CLAIMED = error(
    "DeploymentTargetClaim wants to claim a DeploymentTarget that is already claimed",
    "Another claim has the target in spec.targetName, or it is kept for another one. This claim stays Pending.",
    "Name another target, or delete the other claim.",
)
NO_MATCH = error(
    "DeploymentTarget does not match the specified DeploymentTargetClaim",
    "The target in spec.targetName is of another class, is not Available, or has no credentials.",
    "Name another target, or correct this one; either is seen at once.",
)
TARGET_LOST = error(
    "DeploymentTarget '{target}' of this claim does not exist any more",
    "The target was deleted while it was bound. The claim is Lost: no other target is given to it.",
    "Create the target again, which binds it again; or delete the claim and create another one.",
)
CLASS_NOT_FOUND = error(
    "DeploymentTargetClass '{name}' does not exist; correct spec.deploymentTargetClassName",
    "No target can be made for the claim, and none of this class was found.",
    "Name a class that there is; your operators know them.",
)
NOT_PROVISIONED = error(
    "provisioner '{name}' has made no target within {minutes} minutes that this claim can have; it may not run, or "
    "DeploymentTargetClass '{class_name}' names the wrong one",
    "No service of that name has answered, or what it has made is of another class, has no credentials, or is not in "
    "force. The claim stays Pending and goes on waiting.",
    "Ask your operators whether the provisioner runs, and whether the class names it rightly; or name another class.",
)

NOT_ONE_NAMESPACE = error(
    "SpaceRequest '{request}' gives access to {count} namespaces instead of one",
    "No target can be made of what the sandbox has provisioned. The claim stays Pending.",
    "Ask your operators.",
)
SPACE_NOT_FIT = error(
    "SpaceRequest '{request}' has no {field} in its status, or one of more than {most} characters",
    "No target can be made of what the sandbox has provisioned. The claim stays Pending.",
    "Ask your operators.",
)
SPACE_NOT_READY = error(
    "SpaceRequest '{request}' is not ready after {minutes} minutes: {why}",
    "The sandbox has not made the namespace that the target is to be. The claim stays Pending and goes on waiting; a "
    "SpaceRequest that does not exist is asked for every five minutes.",
    "Read the conditions of the SpaceRequest if there is one, or ask your operators.",
)
SPACE_NOT_GONE = error(
    "SpaceRequest '{request}' of this claim is being deleted, and is still there after {minutes} minutes: {why}",
    "Somebody has deleted it before there was a target. Another one is made once it is gone; the claim stays Pending.",
    "Read the conditions and the finalizers of the SpaceRequest, or ask your operators.",
)
TARGET_NOT_MADE = error(
    "DeploymentTarget '{target}' was not made within {minutes} minutes; this cluster may refuse it",
    "The namespace is there, and the API server does not take the target that is to be made of it, such as for a "
    "ResourceQuota. The claim stays Pending, and the target is asked for every five minutes.",
    "Make room in the quotas of this namespace (`kubectl describe resourcequota`), or ask your operators.",
)
TARGET_NOT_IN_FORCE = error(
    "DeploymentTarget '{target}' exists, but is not in force: {why}",
    "There is no room within the quotas for the target that is for the claim, or its spec is not valid. The claim "
    "stays Pending.",
    "Delete DeploymentTargets that nobody needs, or correct this one; either is seen at once.",
)
TARGET_NAME_TAKEN = error(
    "DeploymentTarget '{target}' exists already and is not for this claim; delete it",
    "The target that would be made for the claim would have its name. The claim stays Pending.",
    "Delete that target if nobody needs it; or delete the claim and create another one.",
)

ENTRIES = (
    NO_ERROR,
    ALREADY_CLAIMED,
    NO_MATCH,
    TARGET_LOST,
    CLASS_NOT_FOUND,
    NOT_PROVISIONED,
    NOT_ONE_NAMESPACE,
    SPACE_NOT_FIT,
    SPACE_NOT_READY,
    SPACE_NOT_GONE,
    TARGET_NOT_MADE,
    TARGET_NOT_IN_FORCE,
    TARGET_NAME_TAKEN,
    QUOTA_EXCEEDED,
    *PARKED,
    *THROTTLING,
)

"""Conditions of a GitOpsDeploymentSyncRun."""

from __future__ import annotations

from services.kinds.gitops_deployment import catalogue as deployment
from services.kinds.shared.catalogue import (
    ERROR,
    PARKED,
    QUOTA_EXCEEDED,
    THROTTLING,
    UNKNOWN_ERROR,
    Entry,
    error,
)
from services.kinds.shared.url_rules import REVISION_MESSAGE
from services.kinds.sync_run.model import DEPLOYMENT_NAME_IMMUTABLE, REVISION_IMMUTABLE

NO_ERROR = Entry(ERROR, "False", "", "", "Nothing went wrong so far; status.operation says how far it is.")
DEPLOYMENT_NOT_FOUND = error(
    "Unable to retrieve GitOpsDeployment '{name}' referenced by the GitOpsDeploymentSyncRun",
    "There is no such GitOpsDeployment in this namespace. The run waits for it.",
    "Create the GitOpsDeployment, which starts the run; or delete the run and make one with the right name.",
)
DEPLOYMENT_AUTOMATED = error(
    "invalid GitOpsDeploymentSyncRun '{name}'. Syncing a GitOpsDeployment with Automated sync policy is not allowed",
    "An automated GitOpsDeployment deploys every commit by itself. The run never takes place, also if the "
    "GitOpsDeployment becomes manual later: what was asked for may be long out of date by then.",
    "Delete the run. To deploy by hand, set the GitOpsDeployment's spec.type to manual, then create another run.",
)
SYNC_FAILED = error(
    "{message of Argo CD}",
    "The sync ended without success; status.operation has its phase and message. It is not tried again.",
    "Mend what the message names, then create another run.",
)
NAME_CHANGED = error(
    DEPLOYMENT_NAME_IMMUTABLE,
    "spec.gitopsDeploymentName was changed. The API server refuses that; the run stays what it was.",
    "Change it back, and create another run.",
)
REVISION_CHANGED = error(
    REVISION_IMMUTABLE,
    "spec.revisionID was changed. The API server refuses that; the run stays what it was.",
    "Change it back, and create another run.",
)
REVISION_REFUSED = error(
    f"spec.revisionID: {REVISION_MESSAGE}", "git would read it as an option.", "Create another run with a revision."
)
REPOSITORY_NEEDS_LOGIN = error(
    deployment.REPOSITORY_NEEDS_LOGIN.message,
    "The repository does not open without a login, or does not exist, and this namespace has no working login for it.",
    "Create a GitOpsDeploymentRepositoryCredential for it, or correct the deployment, then create another run.",
)
ENGINE_NOT_ACCEPTED = error(
    "the engine deploys nothing new at the moment, and this run does not wait for it: create another "
    "GitOpsDeploymentSyncRun once it does; your operators are told why",
    "The engine lacks security fixes, and the settings that make up for them. What was deployed stays as it is.",
    "Wait until your operators have mended the engine, then create another run.",
)
TERMINATED_FOR_MOVE = error(
    "the sync took too long and was terminated, because your namespace moves to another GitOps engine; create another "
    "GitOpsDeploymentSyncRun",
    "Your operators move your namespace. The move waits some minutes for a sync to end, and no longer: most likely a "
    "hook did not end. What the sync had deployed until then stays as it is.",
    "Create another run, which begins when the move is over. If it takes that long again, mend what it waits for.",
)
DEPLOYMENT_DELETED = error(
    "the GitOpsDeployment was deleted before the sync ended",
    "There is nothing left to sync.",
    "Create the GitOpsDeployment again, then another run.",
)

ENTRIES = (
    NO_ERROR,
    DEPLOYMENT_NOT_FOUND,
    DEPLOYMENT_AUTOMATED,
    SYNC_FAILED,
    NAME_CHANGED,
    REVISION_CHANGED,
    REVISION_REFUSED,
    REPOSITORY_NEEDS_LOGIN,
    ENGINE_NOT_ACCEPTED,
    TERMINATED_FOR_MOVE,
    DEPLOYMENT_DELETED,
    QUOTA_EXCEEDED,
    UNKNOWN_ERROR,
    *PARKED,
    *THROTTLING,
)

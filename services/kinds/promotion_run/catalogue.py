"""Conditions of a PromotionRun, and what its environmentStatus says of each environment."""

from __future__ import annotations

from services.kinds.shared.catalogue import ERROR, QUOTA_EXCEEDED, TENANT_PARKED, THROTTLING, Entry, error

MINUTES = 10
"""How long a promotion to one environment may take."""

NO_ERROR = Entry(ERROR, "False", "", "", "Nothing is wrong; status.environmentStatus says how far it is.")
TARGET_INVALID = error(
    "Target Environment has invalid value.",
    "spec names no environment, or two. The API server refuses that; the run never takes place.",
    "Create another run with one of spec.manualPromotion and spec.automatedPromotion.",
)
ENVIRONMENT_NOT_FOUND = error(
    "Environment '{environment}' does not exist; create it",
    "There is no Environment of this name in this namespace. The run waits for it until its time is over.",
    "Create the Environment, or delete the run and create another one.",
)
ENVIRONMENT_EXPIRED = error(
    "Environment '{environment}' is over; name another one",
    "The time that the Environment gives is over, and it is being removed.",
    "Delete the run and create another one.",
)
APPLICATION_NOT_FOUND = error(
    "Application '{application}' does not exist; create it",
    "There is no Application of this name in this namespace. The run waits for it until its time is over.",
    "Create the Application, or delete the run and create another one.",
)
SNAPSHOT_NOT_FOUND = error(
    "Snapshot: {snapshot} referred in Binding: {binding} does not exist.",
    "The snapshot was deleted, or never was. The binding is left as it is; the run waits until its time is over.",
    "Create the snapshot again, or delete the run and create another one.",
)
SNAPSHOT_BEYOND_QUOTA = error(
    "Snapshot '{snapshot}' is beyond the quota of this namespace; delete older Snapshots",
    "Your namespace has more Snapshots than it may have, and the oldest ones count. The run waits until its time is "
    "over.",
    "Delete Snapshots that are not needed any more, or ask your operators for more.",
)
SNAPSHOT_OF_ANOTHER = error(
    "Snapshot '{snapshot}' is one of application '{other}', not of '{application}'; name one of this application",
    "Images of another application would be deployed. The binding is left as it is; the run fails when its time is "
    "over.",
    "Delete the run and create another one.",
)
ENTRIES = (
    NO_ERROR,
    TARGET_INVALID,
    ENVIRONMENT_NOT_FOUND,
    ENVIRONMENT_EXPIRED,
    APPLICATION_NOT_FOUND,
    SNAPSHOT_NOT_FOUND,
    SNAPSHOT_BEYOND_QUOTA,
    SNAPSHOT_OF_ANOTHER,
    QUOTA_EXCEEDED,
    TENANT_PARKED,
    *THROTTLING,
)

WAITS_FOR_RUN = "Waiting for PromotionRun '{run}' of the same application to complete."
WAITS_FOR_BINDING = "Waiting for the environment binding to create all of the expected GitOpsDeployments."
WAITS_FOR_DEPLOYMENTS = "Waiting for following GitOpsDeployments to be Synced/Healthy: {deployments}"
SUCCEEDED = "All GitOpsDeployments are Synced/Healthy"
FAILED = f"Promotion Failed. Could not be completed in {MINUTES} Minutes."
NOT_DEPLOYED = "{component} has no GitOpsDeployment yet"
NOT_AS_WANTED = "{component} is {sync}, {health}, at {revision}; wanted: {commit}"
NEWER_COMMIT = "a commit that is newer than the promotion"
NO_COMMIT = "a commit that the build service has not named"
NOT_ANSWERED = "the build service has not said yet where the manifests of this snapshot are"

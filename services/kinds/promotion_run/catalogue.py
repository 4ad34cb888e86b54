"""Conditions of a PromotionRun, and what its environmentStatus says of each environment."""

from __future__ import annotations

from services.kinds.shared.catalogue import ERROR, PARKED, QUOTA_EXCEEDED, THROTTLING, Entry, error

MINUTES = 10
"""How long a promotion to one environment may take."""
COMPONENTS_OF_SNAPSHOT = "kubectl get snapshot NAME -o jsonpath='{.spec.components[*].name}'"
"""A column of ``kubectl get`` would print the first one alone."""

_ENDS_AT_ONCE = "The promotion to this environment has failed at once: nothing can mend it."
_ANOTHER_RUN = "Create another run; the spec of this one does not change."

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
    f"The time that the Environment gives is over, and it is being removed. {_ENDS_AT_ONCE}",
    _ANOTHER_RUN,
)
ENVIRONMENT_GOES = error(
    "Environment '{environment}' is being deleted; name another one",
    f"A deletion is not taken back, so nothing will be deployed there. {_ENDS_AT_ONCE}",
    _ANOTHER_RUN,
)
NOT_IN_FORCE = error(
    "{kind} '{name}' exists, but is not in force: {why}",
    "There is no room for it within the quotas, where the oldest ones count, or its spec is not valid. The run waits "
    "for it until its time is over.",
    "Do what the message says; it is seen at once. For more room ask your operators.",
)
APPLICATION_NOT_FOUND = error(
    "Application '{application}' does not exist; create it",
    "There is no Application of this name in this namespace. The run waits for it until its time is over.",
    "Create the Application, or delete the run and create another one.",
)
NO_COMPONENTS = error(
    "Application '{application}' has no components yet; create them",
    "There is no Component of this application in this namespace: nothing would be deployed. The run waits for one "
    "until its time is over.",
    "Create the Components, or delete the run and create another one.",
)
MISSING_COMPONENTS = error(
    "Application '{application}' lacks {count} of the components in Snapshot '{snapshot}'{names}; create them, or "
    "promote a Snapshot without them",
    "The Snapshot has images of components that are not there, or not yet, and no binding is made without them. Those "
    "that another binding of the application has are named. The run waits for them until its time is over.",
    "Create the Components, or, if they were deleted on purpose, delete the run and promote a Snapshot without them. "
    f"`{COMPONENTS_OF_SNAPSHOT}` lists the components of one.",
)
TOO_MANY_COMPONENTS = error(
    "Application '{application}' has {count} components, and a binding at most {most}; delete some",
    "No binding can be made of so many. The run waits until its time is over.",
    "Delete Components of the application, or make applications of fewer components.",
)
NAME_TOO_LONG = error(
    "the name of {what} '{name}' is longer than {most} characters; use a shorter one",
    "A binding would have it in a label, which is no longer. The run waits until its time is over.",
    "Set spec.componentName of a Component to a shorter name; of anything else create another one.",
)
SNAPSHOT_NOT_FOUND = error(
    "Snapshot: {snapshot} referred in Binding: {binding} does not exist.",
    "The snapshot was deleted, or never was. The binding is left as it is; the run waits until its time is over.",
    "Create the snapshot again, with the same images, or delete the run and create another one.",
)
SNAPSHOT_OF_ANOTHER = error(
    "Snapshot '{snapshot}' is one of application '{other}', not of '{application}'; name one of this application",
    f"Images of another application would be deployed. The binding is left as it is. {_ENDS_AT_ONCE}",
    _ANOTHER_RUN,
)
SNAPSHOT_REMADE = error(
    "Snapshot '{snapshot}' was deleted, and created again with other images than those that were promoted; create it "
    "under another name, and name that in spec.snapshot of another run",
    "Bindings and runs know a Snapshot by its name alone, so what is deployed may be of the one before. "
    f"{_ENDS_AT_ONCE}",
    "Create a Snapshot of a name that none has had, and another run for that.",
)
ENTRIES = (
    NO_ERROR,
    TARGET_INVALID,
    ENVIRONMENT_NOT_FOUND,
    ENVIRONMENT_EXPIRED,
    ENVIRONMENT_GOES,
    NOT_IN_FORCE,
    APPLICATION_NOT_FOUND,
    NO_COMPONENTS,
    MISSING_COMPONENTS,
    TOO_MANY_COMPONENTS,
    NAME_TOO_LONG,
    SNAPSHOT_NOT_FOUND,
    SNAPSHOT_OF_ANOTHER,
    SNAPSHOT_REMADE,
    QUOTA_EXCEEDED,
    *PARKED,
    *THROTTLING,
)

WAITS_FOR_RUN = "Waiting for PromotionRun '{run}' of the same application to complete."
WAITS_FOR_BINDING = "Waiting for the environment binding to create all of the expected GitOpsDeployments."
WAITS_FOR_DEPLOYMENTS = "Waiting for following GitOpsDeployments to be Synced/Healthy: {deployments}"
SUCCEEDED = "All GitOpsDeployments are Synced/Healthy"
FAILED = "Promotion Failed."
FAILED_IN_TIME = f"{FAILED} Could not be completed in {MINUTES} Minutes."
NOT_DEPLOYED = "{component} has no GitOpsDeployment yet"
NOT_AS_WANTED = "{component} is {sync}, {health}, at {revision}; wanted: {commit}"
NEWER_COMMIT = "a commit that is newer than the promotion"
NO_COMMIT = "a commit that the build service has not named"
BEYOND_QUOTA = "it is beyond the quota of this namespace; delete others of its kind"
INVALID_SPEC = "its spec is not valid; correct it"
NOTHING_BOUND = "its binding has no component; add those that are to be deployed to spec.components of that"
NOT_ANSWERED = "the build service has not said yet where the manifests of this snapshot are"

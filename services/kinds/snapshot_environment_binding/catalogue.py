"""Conditions of a SnapshotEnvironmentBinding, in bindingConditions and componentDeploymentConditions."""

from __future__ import annotations

from services.kinds.shared.catalogue import PARKED, THROTTLING, Entry
from services.kinds.shared.reconciled import (
    INVALID_SPEC,
    NAME_EXISTS,
    NAME_TAKEN,
    OVER_QUOTA,
    PAIR_RESOLVED,
    RECONCILED,
    in_pairs,
    not_reconciled,
)

DEPLOYED = "AllComponentsDeployed"
_BUILD_SERVICE = "Wait for the build service; if it stays, read status.gitopsRepoConditions, and ask your operators."
_NOTHING = "Nothing is deployed because of this binding."

IS_RECONCILED = Entry(RECONCILED, "True", RECONCILED, "", "Each component has its GitOpsDeployment.")
REPOSITORY_NOT_READY = not_reconciled(
    "GitOpsRepoNotReady",
    "Cannot Reconcile Binding '{binding}', since GitOps Repo Conditions status is false.",
    "The build service could not write the GitOps repository. What was deployed before stays as it is.",
    _BUILD_SERVICE,
)
NO_COMPONENT_STATUS = not_reconciled(
    "WaitingForComponentStatus",
    "SnapshotEventBinding Component status is required to generate GitOps deployment, waiting for the Application "
    "Service controller to finish reconciling binding '{binding}'",
    "The build service has not said yet where the manifests are. What this binding deployed before is removed.",
    _BUILD_SERVICE,
)
COMPONENTS_MISSING = not_reconciled(
    NO_COMPONENT_STATUS.reason,
    NO_COMPONENT_STATUS.message + ": nothing is known of {components}",
    "The build service has not said yet where the manifests of the components in the message are. The others are "
    "deployed.",
    _BUILD_SERVICE,
)
DUPLICATE_COMPONENTS = not_reconciled(
    "DuplicateComponents",
    "duplicate component keys found in status field in {component}",
    "status.components lists a component twice. What was deployed before stays as it is.",
    _BUILD_SERVICE,
)
INVALID_STATUS = not_reconciled(
    "InvalidComponentStatus",
    "what the build service says of this binding cannot be used: {detail}",
    "The part of the status that the build service writes, components and gitopsRepoConditions, has another form than "
    "it may have, or is too long. What was deployed before stays as it is.",
    "Ask who runs the build service. If the message says that the status is too long, it also helps to remove "
    "components.",
)
CLAIM_NOT_FOUND = not_reconciled(
    "ErrorGeneratingGitOpsDeployment",
    "DeploymentTargetClaim referenced by Environment does not exist.",
    "The environment names a claim that is not there. What was deployed before stays as it is.",
    "Create the claim, or correct the Environment; either is seen at once.",
)
TARGET_NOT_FOUND = not_reconciled(
    CLAIM_NOT_FOUND.reason,
    "unable to locate DeploymentTarget the references DeploymentTargetClaim",
    "The environment's claim has no target yet, or has lost it. What was deployed before stays as it is.",
    "Read the conditions of the DeploymentTargetClaim.",
)
NAMESPACE_MISSING = not_reconciled(
    CLAIM_NOT_FOUND.reason,
    "Environment is missing a TargetNamespace field",
    "The environment has credentials, and targetNamespace is empty. What was deployed before stays as it is.",
    "Set spec.unstableConfigurationFields.kubernetesCredentials.targetNamespace of the Environment.",
)
INVALID_COMPONENT = not_reconciled(
    CLAIM_NOT_FOUND.reason,
    "unable to generate the GitOpsDeployment of component '{component}': {detail}",
    "What the build service says of a component cannot be deployed. Nothing of this binding changes until it can.",
    "Correct the name of the component, or ask who runs the build service.",
)
ENVIRONMENT_INVALID = not_reconciled(
    CLAIM_NOT_FOUND.reason,
    "Environment '{environment}' is not usable: read its conditions",
    "It is not known where the environment is. What was deployed before stays as it is.",
    "Mend the Environment as its conditions say.",
)
ENVIRONMENT_NOT_FOUND = not_reconciled(
    "EnvironmentNotFound",
    "Environment '{environment}' does not exist; create it",
    "There is no Environment of this name in this namespace. What was deployed before stays as it is.",
    "Create the Environment. spec.environment does not change: for another one create another binding.",
)
ENVIRONMENT_EXPIRED = not_reconciled(
    "EnvironmentExpired",
    "Environment '{environment}' is over; this binding goes with it",
    "The time that the Environment gives is over. This binding is deleted with everything it has deployed.",
    "Bind the application to another environment. To keep the binding see the conditions of the Environment.",
)
APPLICATION_NOT_FOUND = not_reconciled(
    "ApplicationNotFound",
    "Application '{application}' does not exist; if it is not there at {time}, this binding is deleted with everything "
    "it has deployed",
    "There is no Application of this name in this namespace, or it was deleted. The binding works until it is deleted.",
    "Create the Application by then. spec.application does not change: for another one create another binding.",
)
DUPLICATE_BINDING = not_reconciled(
    "DuplicateBinding",
    "SnapshotEnvironmentBinding '{binding}' is older and binds application '{application}' to environment "
    "'{environment}' already; delete one of the two",
    f"Two bindings would deploy the same components to the same place. The older one is in force. {_NOTHING}",
    "Delete one of the two.",
)
COMPONENTS_OVER_QUOTA = not_reconciled(
    OVER_QUOTA.reason,
    "quota exceeded: {waiting} of {wanted} components have no GitOpsDeployment, since all bindings of this namespace "
    "together may have {most}; remove components or bindings, or ask the operator for more",
    "The bindings of your namespace have more components than it may have GitOpsDeployments. What is deployed stays; "
    "of this binding not everything is.",
    "Remove components or bindings that you do not need: the oldest binding that waits has the room once their "
    "GitOpsDeployments are gone. Or ask your operators for more.",
)

COMMITS_SYNCED = Entry(
    DEPLOYED,
    "True",
    "CommitsSynced",
    "{synced} of {all} components deployed",
    "Each component's GitOpsDeployment is Synced.",
)
COMMITS_UNSYNCED = Entry(
    DEPLOYED,
    "False",
    "CommitsUnsynced",
    COMMITS_SYNCED.message,
    "Some components are not Synced, or have no GitOpsDeployment yet.",
    "Wait; if it stays, read the conditions of the GitOpsDeployments that status.gitopsDeployments names.",
)

ENTRIES = (
    IS_RECONCILED,
    *in_pairs(
        (
            REPOSITORY_NOT_READY,
            NO_COMPONENT_STATUS,
            COMPONENTS_MISSING,
            DUPLICATE_COMPONENTS,
            INVALID_STATUS,
            CLAIM_NOT_FOUND,
            TARGET_NOT_FOUND,
            NAMESPACE_MISSING,
            INVALID_COMPONENT,
            ENVIRONMENT_INVALID,
            ENVIRONMENT_NOT_FOUND,
            ENVIRONMENT_EXPIRED,
            APPLICATION_NOT_FOUND,
            DUPLICATE_BINDING,
            NAME_TAKEN,
            NAME_EXISTS,
            INVALID_SPEC,
            OVER_QUOTA,
            COMPONENTS_OVER_QUOTA,
        )
    ),
    PAIR_RESOLVED[0],
    COMMITS_SYNCED,
    COMMITS_UNSYNCED,
    *PARKED,
    *THROTTLING,
)

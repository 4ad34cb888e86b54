"""Conditions of a GitOpsDeployment."""

from __future__ import annotations

from services.kinds.gitops_deployment.model import ENVIRONMENT_MESSAGE, SYNC_OPTION_MESSAGE, TYPE_MESSAGE
from services.kinds.shared.catalogue import (
    DELETING,
    PARKED,
    QUOTA_EXCEEDED,
    RESOLVED,
    THROTTLING,
    UNKNOWN_ERROR,
    Entry,
    error,
)
from services.kinds.shared.url_rules import REVISION_MESSAGE

_READY = "Read the conditions of the GitOpsDeploymentManagedEnvironment; mend it, its Secret or the name."
_NAMESPACE = "Set spec.destination.namespace to a namespace of the environment."

PATH_EMPTY = error(
    "spec.source.path is a required field and it cannot be empty",
    "spec.source.path is empty.",
    "Name the folder of the manifests, '.' for the whole repository.",
)
PATH_ROOT = error(
    "spec.source.path cannot be '/'", "spec.source.path is '/'.", "Write '.' if you mean the whole repository."
)
PATH_OUTSIDE = error(
    "spec.source.path must be a folder inside the repository: it cannot begin with '/', contain '\\' or leave the "
    "repository by '..'",
    "spec.source.path leads out of the repository.",
    "Write the folder as seen from the root of the repository, such as apps/web.",
)
ENVIRONMENT_UNUSABLE_ON_CREATE = error(
    "Unable to reconcile the ManagedEnvironment. Verify that the ManagedEnvironment and Secret are correctly defined, "
    "and have valid credentials",
    "spec.destination.environment names an environment that is missing or not connected; nothing was deployed yet.",
    _READY,
)
ENVIRONMENT_UNUSABLE_ON_UPDATE = error(
    "unable to reconcile the ManagedEnvironment resource. Ensure that the ManagedEnvironment exists, it references a "
    "Secret, and the Secret is valid",
    "As above, or the environment was deleted. What was deployed before stays as it is.",
    _READY,
)
NAMESPACE_INVALID_ON_CREATE = error(
    "the namespace specified in the destination field is invalid",
    "An environment is named, but no namespace, or one that cannot be a namespace's name.",
    _NAMESPACE,
)
NAMESPACE_INVALID_ON_UPDATE = error(
    "destination namespace specified in the .spec.Destination.Namespace field is invalid",
    "As above, after a change. What was deployed before stays as it is.",
    _NAMESPACE,
)
NAMESPACE_NOT_LISTED = error(
    "namespace '{namespace}' is not among the namespaces of the environment '{environment}'",
    "The environment lists the namespaces that deployments may go to; this one is not listed.",
    "Correct spec.destination.namespace, or add it to the environment's spec.namespaces.",
)
OPTION_UNKNOWN = error(
    SYNC_OPTION_MESSAGE,
    "An entry of spec.syncPolicy.syncOptions is not known. New objects with such an entry are refused.",
    "Use CreateNamespace=true or CreateNamespace=false.",
)
TYPE_UNKNOWN = error(
    TYPE_MESSAGE, "spec.type is neither. New objects are refused.", "Set spec.type to automated or manual."
)
NAMESPACE_WITHOUT_ENVIRONMENT = error(
    ENVIRONMENT_MESSAGE,
    "Without an environment a deployment goes to the namespace of its own resource only. New objects are refused.",
    "Remove spec.destination.namespace, or name an environment.",
)
NO_LOCAL_CLUSTER = error(
    "deployments of this workspace need an environment; set spec.destination.environment",
    "Only workspaces that your operators have named may deploy to the cluster on which the engine itself runs.",
    "Create a GitOpsDeploymentManagedEnvironment for your cluster and name it in spec.destination.environment.",
)
NOT_ON_ENGINES_CLUSTER = error(
    "deployments of this namespace need an environment, as its engine is on another cluster; set "
    "spec.destination.environment",
    "Without an environment a deployment goes to the namespace of its own resource on the cluster on which the engine "
    "itself runs, and that one does not have this namespace.",
    "Create a GitOpsDeploymentManagedEnvironment for your cluster and name it in spec.destination.environment.",
)
PLATFORM_NAMESPACE = error(
    "this namespace belongs to the platform; nothing can be deployed to it",
    "Without an environment a deployment goes to the namespace of its own resource, and this one is the platform's.",
    "Create the GitOpsDeployment in a namespace of your own.",
)
REPOSITORY_REFUSED = error(
    "spec.source.repoURL {problem}",
    "The repository's URL is a pattern, uses a transport that is not allowed, or names a host that may not be used.",
    "Write the https or ssh URL of one repository.",
)
REPOSITORY_NEEDS_LOGIN = Entry(
    "ComparisonError",
    "True",
    "ComparisonError",
    "authentication required, or repository not found; create a GitOpsDeploymentRepositoryCredential for "
    "spec.source.repoURL in this namespace, or correct it",
    "The repository does not open without a login, or does not exist, and this namespace has no login for it that "
    "works. What was deployed stays as it is, and is shown as it was last seen.",
    "Create a GitOpsDeploymentRepositoryCredential for this URL. A repository that has become public is found within "
    "ten minutes.",
)
ENGINE_NOT_ACCEPTED = error(
    "the engine deploys nothing new at the moment; your operators are told why",
    "The engine lacks security fixes, and the settings that make up for them, or it is not there at the moment. What "
    "was deployed stays as it is, and what else is shown here is what was seen last.",
    "Nothing: it goes on within five minutes once your operators have mended the engine.",
)
REVISION_REFUSED = error(
    f"spec.source.targetRevision: {REVISION_MESSAGE}",
    "git would read it as an option.",
    "Name a branch, tag or commit.",
)
QUOTA_NOT_KEPT = error(
    "{quota}; change this spec afterwards to have it looked at again",
    "As for a quota exceeded, and as many deployments wait already as your namespace may have. This one is not kept "
    "waiting: room alone does not bring it in.",
    "Delete what you do not need, then change its spec. Or ask your operators for more.",
)
FIELD_REFUSED = error(
    "spec.{field}: {problem}; correct this field", "A field has a wrong type or is too long.", "Correct the field."
)
FIELD_MISSING = error("spec.{field} is missing; set it", "A required field is missing.", "Set the field.")
SYNC_FAILED = Entry(
    "SyncError",
    "True",
    "SyncError",
    "{message of Argo CD}",
    "The last attempt to sync failed. An automated deployment is tried again, after 5 seconds to 3 minutes, at the "
    "newest commit; the condition holds until a sync succeeds.",
    "Read the message: it names the resource that was refused, and why. Commit a manifest that is right; a manual "
    "deployment then needs another GitOpsDeploymentSyncRun.",
)
ENGINE_SAYS = Entry(
    "{type}",
    "True",
    "{type}",
    "{message of Argo CD}",
    "Argo CD reports a condition of this type, such as ComparisonError (it cannot read or render the manifests), "
    "InvalidSpecError or SharedResourceWarning.",
    "Read the message: it names the file, the resource or the permission.",
)
ENGINE_SAID = Entry("{type}", "False", "{type}Resolved", "", "Argo CD reports this condition no longer.")
IS_DELETING = Entry(
    DELETING,
    "True",
    DELETING,
    "waiting for the GitOps engine to remove what was deployed",
    "The resource is being deleted, and what it deployed takes longer than five seconds to go.",
    "Usually nothing: after a deadline it is forced. Look for finalizers on what was deployed.",
)
STATUS_CUT = Entry(
    "StatusTruncated",
    "True",
    "StatusTruncated",
    "the status is longer than {limit} KiB: left out is {parts}",
    "So much was deployed that its list does not fit into one resource's status. It is deployed all the same.",
    "Nothing. To see all of it, deploy its parts by several GitOpsDeployments, or ask the cluster.",
)
STATUS_WHOLE = Entry("StatusTruncated", "False", "StatusTruncatedResolved", "", "Everything is shown again.")
LEFT_BEHIND = Entry(
    "ResourcesLeftBehind",
    "True",
    "ResourcesLeftBehind",
    "the deletion of a former GitOpsDeployment of this name was forced; not deployed by this one, and maybe still "
    "there: {resources}",
    "What was deployed before did not go in time. Nobody looks after these resources, which were seen last.",
    "Look whether they are there, and delete what you do not need; or add them to the repository, and this deployment "
    "takes them over. The condition goes once all of them are in status.resources, or seven days after the deletion.",
)
NOTHING_LEFT_BEHIND = Entry(
    "ResourcesLeftBehind",
    "False",
    "ResourcesLeftBehindResolved",
    "",
    "This deployment has taken over what a former one of its name had left behind, or that is no news any more.",
)
DELETED = Entry(DELETING, "False", "DeletingResolved", "", "What was deployed is gone.")

ENTRIES = (
    PATH_EMPTY,
    PATH_ROOT,
    PATH_OUTSIDE,
    ENVIRONMENT_UNUSABLE_ON_CREATE,
    ENVIRONMENT_UNUSABLE_ON_UPDATE,
    NAMESPACE_INVALID_ON_CREATE,
    NAMESPACE_INVALID_ON_UPDATE,
    NAMESPACE_NOT_LISTED,
    OPTION_UNKNOWN,
    TYPE_UNKNOWN,
    NAMESPACE_WITHOUT_ENVIRONMENT,
    NO_LOCAL_CLUSTER,
    NOT_ON_ENGINES_CLUSTER,
    PLATFORM_NAMESPACE,
    REPOSITORY_REFUSED,
    REPOSITORY_NEEDS_LOGIN,
    ENGINE_NOT_ACCEPTED,
    REVISION_REFUSED,
    FIELD_REFUSED,
    FIELD_MISSING,
    QUOTA_EXCEEDED,
    QUOTA_NOT_KEPT,
    UNKNOWN_ERROR,
    RESOLVED,
    SYNC_FAILED,
    ENGINE_SAYS,
    ENGINE_SAID,
    IS_DELETING,
    DELETED,
    STATUS_CUT,
    STATUS_WHOLE,
    LEFT_BEHIND,
    NOTHING_LEFT_BEHIND,
    *PARKED,
    *THROTTLING,
)

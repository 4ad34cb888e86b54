"""Conditions of an Environment."""

from __future__ import annotations

from services.kinds.shared.catalogue import PARKED, THROTTLING, Reason
from services.kinds.shared.reconciled import (
    INVALID_SPEC,
    NAME_EXISTS,
    OVER_QUOTA,
    PAIR_RESOLVED,
    in_pairs,
    not_reconciled,
)

EXPIRES_AT = "appstudio.openshift.io/expires-at"
"""Annotation: when the environment is over."""
LONGEST_DAYS = 365
"""After its creation."""

NO_TIME = "must be a time with its zone, such as 2026-05-04T12:00:00Z; correct it"
NO_CLAIM = (
    "is for environments whose place is a claim, and spec.configuration.target names none, or there are credentials, "
    "too; remove the annotation"
)
TOO_EARLY = "is a time before this environment was created, {created_at}; set a later one, or remove the annotation"
TOO_LATE = (
    f"is a time more than {LONGEST_DAYS} days after this environment was created, {{created_at}}; set an earlier one, "
    "or remove the annotation"
)

_KEPT = "What was deployed there stays as it is."

BOTH_CONFIGURED = not_reconciled(
    "InvalidEnvironment",
    "Environment is invalid since it cannot have both DeploymentTargetClaim and credentials configuration set",
    f"spec names a claim and has credentials, so it is not known where the environment is. {_KEPT}",
    "Remove spec.configuration.target or spec.unstableConfigurationFields.kubernetesCredentials.",
)
CLAIM_NOT_FOUND = not_reconciled(
    "DeploymentTargetClaimNotFound",
    "DeploymentTargetClaim not found while generating the desired Environment resource",
    f"There is no DeploymentTargetClaim of the name in spec.configuration.target in this namespace. {_KEPT}",
    "Create the claim or correct the name; either is seen at once.",
)
TARGET_NOT_FOUND = not_reconciled(
    "DeploymentTargetNotFound",
    "DeploymentTarget not found for DeploymentTargetClaim",
    f"The claim is bound, but its DeploymentTarget is gone. {_KEPT}",
    "Create the target again, or name another claim.",
)
SECRET_NOT_FOUND = not_reconciled(
    Reason.SECRET_NOT_FOUND,
    "the secret {secret} referenced by the Environment resource was not found",
    "There is no Secret of the name that the credentials, or those of the DeploymentTarget, have in "
    "clusterCredentialsSecret. Its copy, if there was one, is removed; what was deployed stays.",
    "Create the Secret with a kubeconfig, or correct the name; either is seen at once.",
)
_NOT_COPIED = (
    "The Secret of a DeploymentTarget that is of another type than managed-gitops.redhat.com/managed-environment is "
    "copied for the environment, but this one is not: {why} The copy, if there was one, is removed; what was deployed "
    "stays."
)
SECRET_NEVER_COPIED = not_reconciled(
    "SecretNotCopied",
    "the secret {secret} of the DeploymentTarget is not copied: it is of type {type}, which stands for an account of "
    "the cluster itself; name another Secret",
    _NOT_COPIED.format(why="who may name a Secret need not be allowed to read it."),
    "Create a Secret with a kubeconfig, and name that one in clusterCredentialsSecret of the DeploymentTarget; it is "
    "seen at once.",
)
SECRET_TOO_LARGE = not_reconciled(
    "SecretNotCopied",
    "the secret {secret} of the DeploymentTarget is not copied: it is too large; leave nothing but the kubeconfig in "
    "it, or name another Secret",
    _NOT_COPIED.format(why="it is larger than your limits allow."),
    "Do what the message says; either is seen at once. Or ask your operators for more.",
)
SECRET_HAS_NAME_OF_COPY = not_reconciled(
    "SecretNotCopied",
    "the secret {secret} of the DeploymentTarget is not copied: the copy would have the same name; create it under "
    "another name, and name that one",
    _NOT_COPIED.format(why="its name is the one that its copy would have."),
    "Create the Secret under another name, and name that one in clusterCredentialsSecret of the DeploymentTarget; it "
    "is seen at once.",
)
PARENT_CYCLE = not_reconciled(
    "ParentCycle",
    "parentEnvironment leads back to this environment: {cycle}; remove parentEnvironment from one of them",
    "Its parents go round in a circle, so no promotion could ever end. It can be deployed to; automated promotions "
    "do not go through it.",
    "Remove spec.parentEnvironment from one of the environments that the message names.",
)
PARENT_NOT_FOUND = not_reconciled(
    "ParentNotFound",
    "parentEnvironment '{parent}' does not exist; create it, or name another one",
    "There is no Environment of the name in spec.parentEnvironment in this namespace. It can be deployed to; automated "
    "promotions do not reach it.",
    "Create that Environment, or correct or remove spec.parentEnvironment; either is seen at once.",
)
HAS_CHILDREN = not_reconciled(
    "ParentOfOthers",
    "this environment is being deleted, and {children} name it as parentEnvironment; name another parent there",
    "Automated promotions reach those environments through this one. Once it is gone they end before them. The service "
    "does not hold an Environment back: this is shown only while a finalizer of somebody else does. After that its "
    "children say `ParentNotFound`.",
    "Change spec.parentEnvironment of the environments that the message names.",
)
NO_LOCAL_CLUSTER = not_reconciled(
    "NoLocalCluster",
    "environments of this namespace need a cluster; set spec.configuration.target.deploymentTargetClaim or "
    "spec.unstableConfigurationFields.kubernetesCredentials",
    "Without either an environment is its own namespace, and only workspaces that your operators have named may deploy "
    "to the cluster on which the engine itself runs, from namespaces that are on it.",
    "Name a DeploymentTargetClaim, or give the credentials of your cluster.",
)
INVALID_EXPIRY = not_reconciled(
    "InvalidExpiry",
    f"annotation {EXPIRES_AT} {{detail}}",
    "The annotation that says when the environment goes cannot be meant as it is. The environment stays, and works.",
    "Do what the message says; it is seen at once.",
)
EXPIRED = not_reconciled(
    "Expired",
    f"this environment is over since {{time}}, by its annotation {EXPIRES_AT}; bindings and deployments left: {{left}}",
    "Its time is over, so it goes: its SnapshotEnvironmentBindings with what they have deployed, then its claim, whose "
    "DeploymentTarget goes if the class says so, and then itself.",
    "Wait until it is gone. To keep what is left set a later time, or remove the annotation.",
)

ENTRIES = (
    *in_pairs(
        (
            BOTH_CONFIGURED,
            CLAIM_NOT_FOUND,
            TARGET_NOT_FOUND,
            SECRET_NOT_FOUND,
            SECRET_NEVER_COPIED,
            SECRET_TOO_LARGE,
            SECRET_HAS_NAME_OF_COPY,
            PARENT_CYCLE,
            PARENT_NOT_FOUND,
            HAS_CHILDREN,
            NO_LOCAL_CLUSTER,
            INVALID_EXPIRY,
            EXPIRED,
            NAME_EXISTS,
            INVALID_SPEC,
            OVER_QUOTA,
        )
    ),
    *PAIR_RESOLVED,
    *PARKED,
    *THROTTLING,
)

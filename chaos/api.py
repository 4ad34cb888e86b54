"""What users and operators are told of the API: kinds, labels and names. Written down anew on purpose.

The checker judges the product by these, so they are not taken from its code.
"""

from __future__ import annotations

from services.common.kubernetes import ApiResource

GROUP, VERSION = "managed-gitops.redhat.com", "v1alpha1"
DEPLOYMENT = ApiResource(GROUP, VERSION, "GitOpsDeployment", "gitopsdeployments")
ENVIRONMENT = ApiResource(GROUP, VERSION, "GitOpsDeploymentManagedEnvironment", "gitopsdeploymentmanagedenvironments")
CREDENTIAL = ApiResource(
    GROUP, VERSION, "GitOpsDeploymentRepositoryCredential", "gitopsdeploymentrepositorycredentials"
)
SYNC_RUN = ApiResource(GROUP, VERSION, "GitOpsDeploymentSyncRun", "gitopsdeploymentsyncruns")

APPSTUDIO = "appstudio.redhat.com"
APP = ApiResource(APPSTUDIO, VERSION, "Application", "applications")
COMPONENT = ApiResource(APPSTUDIO, VERSION, "Component", "components")
APP_ENVIRONMENT = ApiResource(APPSTUDIO, VERSION, "Environment", "environments")
SNAPSHOT = ApiResource(APPSTUDIO, VERSION, "Snapshot", "snapshots")
BINDING = ApiResource(APPSTUDIO, VERSION, "SnapshotEnvironmentBinding", "snapshotenvironmentbindings")
PROMOTION_RUN = ApiResource(APPSTUDIO, VERSION, "PromotionRun", "promotionruns")
TARGET = ApiResource(APPSTUDIO, VERSION, "DeploymentTarget", "deploymenttargets")
CLAIM = ApiResource(APPSTUDIO, VERSION, "DeploymentTargetClaim", "deploymenttargetclaims")
TARGET_CLASS = ApiResource(APPSTUDIO, VERSION, "DeploymentTargetClass", "deploymenttargetclasses")
SPACE_REQUEST = ApiResource("toolchain.dev.openshift.com", VERSION, "SpaceRequest", "spacerequests")
APPSTUDIO_LABELS = "appstudio.openshift.io"
CLAIM_LABEL, TARGET_LABEL = f"{APPSTUDIO_LABELS}/dtc", f"{APPSTUDIO_LABELS}/dt"
"""Of a SpaceRequest: the claim that it was made for, and the target that was made of it."""
EXPIRES_AT = f"{APPSTUDIO_LABELS}/expires-at"
"""Of an Environment on a claim: when it goes, with all that was deployed there because of it."""
FOR_PROVISIONER = "provisioner.appstudio.redhat.com/dt-provisioner"
"""Of what is made on demand, and of the claim that asks for it: the class."""
BIND_COMPLETE = "dt.appstudio.redhat.com/bind-complete"
PROVISIONED_BY = "provisioner.appstudio.redhat.com/provisioned-by"
SANDBOX, NOBODY = "appstudio.redhat.com/devsandbox", "example.com/nobody"
"""Provisioners: one that makes a namespace for each claim, and one that nobody is."""
MANAGED_ENVIRONMENT_PREFIX, COPY_PREFIX = "managed-environment-", "managed-environment-secret-"
"""Of what is made for an Environment on a claim; the rest of the name is the Environment's."""

ACCOUNT = ApiResource("", "v1", "ServiceAccount", "serviceaccounts")

FINALIZER = f"resources-finalizer.{GROUP}"
KUBECONFIG_TYPE = f"{GROUP}/managed-environment"
LOGIN_TYPE = f"{GROUP}/repository-credential"

MANAGED_BY, MANAGER = "app.kubernetes.io/managed-by", "gitops-service"
DATABASE_ID = "databaseID"
SECRET_TYPE = "argocd.argoproj.io/secret-type"  # noqa: S105 - a label
RUN_INFO = "gitops-sync-run"
"""Under this name the operation of an Application says which run it is."""

REFUSALS = {
    "/": "spec.source.path cannot be '/'",
    "../outside": "spec.source.path must be a folder inside the repository",
}
"""Paths that a GitOpsDeployment may not have, though its CRD takes them, and how its error begins then."""

APPLICATION_PREFIX = "gitopsdepl-"
HEARTBEAT = "gitops-service-heartbeat"
"""By which agents see that an Argo CD does its work; no tenant's."""
ACCOUNT_NAMESPACE, ACCOUNT_PREFIX = "kube-system", "argocd-manager-"
"""Of the service account that an environment has created on its cluster; the rest of its name is its uid."""
PROJECT_PREFIX = "app-project-"
CLUSTER_PREFIX = "managed-env-"
REPOSITORY_PREFIX = "repo-cred-"

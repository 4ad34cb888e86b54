"""What Argo CD calls things, and what our own of its objects are called."""

from __future__ import annotations

GROUP, VERSION = "argoproj.io", "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
APPLICATION = "Application"
APP_PROJECT = "AppProject"

CONTROLLER, REPO_SERVER, REDIS = "argocd-application-controller", "argocd-repo-server", "argocd-redis"
"""Its workloads: a StatefulSet and two Deployments."""
NAME_LABEL = "app.kubernetes.io/name"
"""Of its pods, with the name of their workload."""
SECRET_TYPE_LABEL = "argocd.argoproj.io/secret-type"  # noqa: S105 - a label
"""Of Secrets by which it knows clusters and repositories."""
CONFIG = "argocd-cm"
"""The ConfigMap with its settings."""
LOCAL_CLUSTER = "in-cluster"
"""The cluster that Argo CD itself runs in."""

INSTALLATION_ID = "gitops-service-argocd"
"""By which all Argo CDs of a fleet know what any of them has deployed, unless operators say another."""

APPLICATION_PREFIX = "gitopsdepl-"
CLUSTER_SUFFIX = "-cluster"
"""Of a tenant's second AppProject, which may have resources without a namespace."""


def application_name(uid: str) -> str:
    """Name of the Application of the GitOpsDeployment with this uid."""
    return f"{APPLICATION_PREFIX}{uid}"


def uid_of(application: str) -> str:
    """The uid in an Application's name; "" if it is not one of ours."""
    return application.removeprefix(APPLICATION_PREFIX) if application.startswith(APPLICATION_PREFIX) else ""

"""Names in Argo CD, and names of our objects there."""

from __future__ import annotations

GROUP, VERSION = "argoproj.io", "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
APPLICATION = "Application"
APP_PROJECT = "AppProject"

CONTROLLER, REPO_SERVER, REDIS = "argocd-application-controller", "argocd-repo-server", "argocd-redis"
"""Its workloads: a StatefulSet and two Deployments."""
NAME_LABEL = "app.kubernetes.io/name"
"""Label of Argo CD's pods, with the name of their workload."""
SECRET_TYPE_LABEL = "argocd.argoproj.io/secret-type"  # noqa: S105 - a label
"""Label of Secrets that describe clusters and repositories to Argo CD."""
CONFIG = "argocd-cm"
"""The ConfigMap with its settings."""
LOCAL_CLUSTER = "in-cluster"
"""The cluster that Argo CD itself runs in."""

INSTALLATION_ID = "gitops-service-argocd"
"""The id by which all Argo CDs of a fleet recognise what any of them has deployed, unless operators set another."""

APPLICATION_PREFIX = "gitopsdepl-"
CLUSTER_SUFFIX = "-cluster"
"""Suffix of a tenant's second AppProject, which permits resources without a namespace."""


def application_name(uid: str) -> str:
    """Name of the Application of the GitOpsDeployment with this uid."""
    return f"{APPLICATION_PREFIX}{uid}"


def uid_of(application: str) -> str:
    """The uid in an Application's name; empty if the Application is not ours."""
    return application.removeprefix(APPLICATION_PREFIX) if application.startswith(APPLICATION_PREFIX) else ""

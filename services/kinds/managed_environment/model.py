"""GitOpsDeploymentManagedEnvironment: a cluster, or some namespaces of one, that deployments may go to."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from services.common.api_resource import ApiResource
from services.kinds.shared.api_group import GROUP, VERSION
from services.kinds.shared.api_model import CONDITIONS, ApiModel, Condition
from services.kinds.shared.text import MAX_NAME, MAX_NAMESPACES, MAX_URL
from services.kinds.shared.url_rules import api_server

MANAGED_ENVIRONMENT = ApiResource(
    GROUP, VERSION, "GitOpsDeploymentManagedEnvironment", "gitopsdeploymentmanagedenvironments"
)
ENVIRONMENT_SECRET = f"{GROUP}/managed-environment"
"""Type of the Secret that it names."""

API_URL_MESSAGE = "cluster api url must start with https://"


class ManagedEnvironmentSpec(ApiModel):
    """Which cluster, and how to reach it."""

    api_url: str = Field(
        alias="apiURL",
        max_length=MAX_URL,
        description=(
            "URL of the cluster's API server, https, as the kubeconfig in the Secret has it; without query or fragment."
        ),
        json_schema_extra=api_server(API_URL_MESSAGE),
    )
    credentials_secret: str = Field(
        max_length=MAX_NAME,
        description=(
            f"Name of a Secret of the same namespace and of type {ENVIRONMENT_SECRET} with a kubeconfig in its key "
            "kubeconfig."
        ),
    )
    allow_insecure_skip_tls_verify: bool = Field(
        alias="allowInsecureSkipTLSVerify",
        description="true: the API server's certificate is not verified. Only for clusters that nobody else can reach.",
    )
    create_new_service_account: bool = Field(
        default=False,
        description=(
            "true: a ServiceAccount for deployments is created on the cluster with the kubeconfig's identity, and "
            "removed with the environment; that identity may be a token or a client certificate. "
            "false: the kubeconfig's own token is used."
        ),
    )
    namespaces: list[Annotated[str, Field(max_length=MAX_NAME)]] | None = Field(
        default=None,
        max_length=MAX_NAMESPACES,
        description="The namespaces that deployments may go to; the whole cluster if left out.",
    )
    cluster_resources: bool = Field(
        default=False,
        description="true: deployments to it may contain resources that belong to no namespace.",
    )


class ManagedEnvironmentStatus(ApiModel):
    """Whether the cluster can be reached with these credentials."""

    conditions: list[Condition] | None = Field(default=None, description=CONDITIONS)

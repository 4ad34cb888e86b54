"""How a cluster is reached: the part of a spec that environments and deployment targets have in common."""

from __future__ import annotations

from pydantic import Field

from services.kinds.shared.api_model import ApiModel
from services.kinds.shared.text import MAX_NAME, MAX_URL
from services.kinds.shared.url_rules import api_server

HTTPS_MESSAGE = "API URL must be an absolute URL starting with an 'https' scheme"


class ClusterCredentials(ApiModel):
    """A cluster, and the Secret that opens it."""

    api_url: str = Field(
        alias="apiURL",
        max_length=MAX_URL,
        description=(
            "URL of the cluster's API server, https, as the kubeconfig in the Secret has it; without query or fragment."
        ),
        json_schema_extra=api_server(HTTPS_MESSAGE),
    )
    cluster_credentials_secret: str = Field(
        max_length=MAX_NAME,
        description="Name of a Secret of the same namespace with a kubeconfig in its key kubeconfig.",
    )
    allow_insecure_skip_tls_verify: bool = Field(
        alias="allowInsecureSkipTLSVerify",
        description="true: the API server's certificate is not verified. Only for clusters that nobody else can reach.",
    )

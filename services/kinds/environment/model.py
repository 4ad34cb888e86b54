"""Environment: where components of applications are deployed to, and what is promoted to it after which other one."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field
from pydantic.alias_generators import to_camel

from services.common.api_resource import ApiResource
from services.kinds.shared.api_group import APPSTUDIO_GROUP, VERSION
from services.kinds.shared.api_model import CONDITIONS, ApiModel, Condition, EnvironmentVariable, cel, rule
from services.kinds.shared.cluster_credentials import ClusterCredentials
from services.kinds.shared.text import MAX_DISPLAY_NAME, MAX_LABEL, MAX_NAME, MAX_NAMESPACES, MAX_VARIABLES

ENVIRONMENT = ApiResource(APPSTUDIO_GROUP, VERSION, "Environment", "environments")

MANUAL, AUTOMATED = "Manual", "AppStudioAutomated"
"""Deployment strategies."""
MAX_TAGS = 50

NAME_MESSAGE = (
    f"the name of an Environment must be a DNS-1123 label: lower-case letters, digits and '-', at most {MAX_LABEL} of "
    "them, no '.'; choose another name"
)
INGRESS_DOMAIN_MISSING = "ingress domain cannot be empty if cluster is of type Kubernetes"
INGRESS_DOMAIN_MESSAGE = (
    "ingressDomain must be a DNS-1123 subdomain: lower-case letters, digits, '-' and '.'; correct this field"
)

NAME_RULE = rule(
    f"oldSelf.hasValue() || (self.metadata.name.size() <= {MAX_LABEL} && !self.metadata.name.contains('.'))",
    NAME_MESSAGE,
) | {"optionalOldSelf": True}
"""The API server checks the rest of a name by itself. A name does not change: what has one already stays usable."""

_SUBDOMAIN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"


class ClaimReference(ApiModel):
    """Which claim."""

    claim_name: str = Field(max_length=MAX_NAME, description="Name of a DeploymentTargetClaim of the same namespace.")


class EnvironmentTarget(ApiModel):
    """Where the environment is, if a claim says so."""

    deployment_target_claim: ClaimReference = Field(description="The claim whose DeploymentTarget it is deployed to.")


class EnvironmentConfiguration(ApiModel):
    """What is particular to this environment."""

    env: list[EnvironmentVariable] | None = Field(
        default=None,
        max_length=MAX_VARIABLES,
        description="Variables for all components; the build service writes them into the GitOps repository.",
    )
    target: EnvironmentTarget | None = Field(
        default=None, description="If left out, credentials say where it is; without them it is its own namespace."
    )


class EnvironmentCredentials(ClusterCredentials):
    """A cluster of the user's own."""

    target_namespace: str = Field(max_length=MAX_LABEL, description="Namespace there that components are deployed to.")
    ingress_domain: str | None = Field(
        default=None,
        max_length=MAX_NAME,
        description="Domain of the cluster's ingress; the build service makes host names with it.",
        json_schema_extra=cel(rule(f"self == '' || self.matches('{_SUBDOMAIN}')", INGRESS_DOMAIN_MESSAGE)),
    )
    namespaces: list[Annotated[str, Field(max_length=MAX_NAME)]] | None = Field(
        default=None,
        max_length=MAX_NAMESPACES,
        description="The namespaces that deployments may go to; the whole cluster if left out.",
    )
    cluster_resources: bool = Field(
        default=False, description="true: deployments to it may contain resources that belong to no namespace."
    )


class UnstableConfiguration(ApiModel):
    """A cluster of the user's own, in fields that clients know as unstable; they do not change any more."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        json_schema_extra=cel(
            rule(
                "!has(self.clusterType) || self.clusterType != 'Kubernetes' || (has(self.kubernetesCredentials) && "
                "has(self.kubernetesCredentials.ingressDomain) && self.kubernetesCredentials.ingressDomain != '')",
                INGRESS_DOMAIN_MISSING,
            )
        ),
    )

    cluster_type: Literal["Kubernetes", "OpenShift"] | None = Field(
        default=None, description="Kubernetes needs an ingressDomain; OpenShift has one by itself."
    )
    kubernetes_credentials: EnvironmentCredentials | None = None


class EnvironmentSpec(ApiModel):
    """Where components go, and when."""

    type: Literal["POC", "Non-POC"] | None = Field(default=None, description="Deprecated; nothing follows from it.")
    display_name: str = Field(max_length=MAX_DISPLAY_NAME, description="What people call it.")
    deployment_strategy: Literal["Manual", "AppStudioAutomated"] = Field(
        description="AppStudioAutomated: an automated promotion that succeeded in the parent goes on to this one."
    )
    parent_environment: str | None = Field(
        default=None, max_length=MAX_LABEL, description="The Environment that promotions come from."
    )
    tags: list[Annotated[str, Field(max_length=MAX_LABEL)]] | None = Field(
        default=None, max_length=MAX_TAGS, description="For people; nothing follows from them."
    )
    configuration: EnvironmentConfiguration | None = None
    unstable_configuration_fields: UnstableConfiguration | None = None

    @property
    def claim_name(self) -> str:
        """Of the claim that says where it is; empty if none does."""
        target = self.configuration.target if self.configuration else None
        return target.deployment_target_claim.claim_name if target else ""

    @property
    def credentials(self) -> EnvironmentCredentials | None:
        """What says where it is, if its user does."""
        unstable = self.unstable_configuration_fields
        return unstable.kubernetes_credentials if unstable else None


class EnvironmentStatus(ApiModel):
    """Whether it can be deployed to."""

    conditions: list[Condition] | None = Field(default=None, description=CONDITIONS)

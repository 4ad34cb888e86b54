"""GitOpsDeploymentRepositoryCredential: how to log in to a private Git repository."""

from __future__ import annotations

from pydantic import Field

from services.common.api_resource import ApiResource
from services.kinds.shared.api_group import GROUP, VERSION
from services.kinds.shared.api_model import CONDITIONS, ApiModel, Condition, rule
from services.kinds.shared.text import MAX_NAME, MAX_URL
from services.kinds.shared.url_rules import has_no_password, has_scheme, is_ascii, parses_or_has_scp_form, repository

REPOSITORY_CREDENTIAL = ApiResource(
    GROUP, VERSION, "GitOpsDeploymentRepositoryCredential", "gitopsdeploymentrepositorycredentials"
)
CREDENTIAL_SECRET = f"{GROUP}/repository-credential"
"""Type of the Secret that it names."""

REPOSITORY_MESSAGE = "repository must begin with ssh:// or https://"
USER_MESSAGE = "repository must not carry a user name with https; put credentials in the Secret"


class RepositoryCredentialSpec(ApiModel):
    """Which repository, and the Secret to log in with."""

    repository: str = Field(
        max_length=MAX_URL,
        description=(
            "URL of the repository, https or ssh, or user@host:path, as GitOpsDeployments have it in their repoURL."
        ),
        json_schema_extra=repository(
            parses_or_has_scp_form("repository"),
            has_scheme(("https", "ssh"), REPOSITORY_MESSAGE),
            rule("!self.matches('^(?i:https)://[^/?#]*@')", USER_MESSAGE),
            has_no_password("repository"),
            is_ascii("repository"),
        ),
    )
    secret: str = Field(
        max_length=MAX_NAME,
        description=(
            f"Name of a Secret of the same namespace and of type {CREDENTIAL_SECRET} with the keys username and "
            "password, or sshPrivateKey."
        ),
    )


class RepositoryCredentialStatus(ApiModel):
    """Whether the repository can be read with these credentials."""

    conditions: list[Condition] | None = Field(default=None, description=CONDITIONS)

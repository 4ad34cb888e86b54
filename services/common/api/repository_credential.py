"""GitOpsDeploymentRepositoryCredential: how to log in to a private Git repository."""

from __future__ import annotations

from pydantic import Field

from services.common.api.conditions import CONDITIONS, Condition
from services.common.api.limits import MAX_NAME, MAX_URL
from services.common.api.model import ApiModel, cel, rule
from services.common.api.urls import has_no_password, has_scheme, is_ascii, parses

SECRET_TYPE = "managed-gitops.redhat.com/repository-credential"  # noqa: S105 - the name of a type
"""Type of the Secret that holds a repository's user name and password, or its key."""

REPOSITORY_MESSAGE = "repository must begin with ssh:// or https://"
USER_MESSAGE = "repository must not carry a user name with https; put credentials in the Secret"


class RepositoryCredentialSpec(ApiModel):
    """Which repository, and the Secret to log in with."""

    repository: str = Field(
        max_length=MAX_URL,
        description="URL of the repository, https or ssh, as GitOpsDeployments have it in spec.source.repoURL.",
        json_schema_extra=cel(
            parses("repository"),
            has_scheme(("https", "ssh"), REPOSITORY_MESSAGE),
            rule("!self.matches('^(?i:https)://[^/?#]*@')", USER_MESSAGE),
            has_no_password("repository"),
            is_ascii("repository"),
        ),
    )
    secret: str = Field(
        max_length=MAX_NAME,
        description=(
            f"Name of a Secret of the same namespace and of type {SECRET_TYPE} with the keys username and password, "
            "or sshPrivateKey."
        ),
    )


class RepositoryCredentialStatus(ApiModel):
    """Whether the repository can be read with these credentials."""

    conditions: list[Condition] | None = Field(default=None, description=CONDITIONS)

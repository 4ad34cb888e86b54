"""Registry entry of GitOpsDeploymentRepositoryCredential."""

from __future__ import annotations

from pathlib import Path

from services.kinds.repository_credential import catalogue
from services.kinds.repository_credential.model import (
    REPOSITORY_CREDENTIAL,
    RepositoryCredentialSpec,
    RepositoryCredentialStatus,
)
from services.kinds.repository_credential.status import UP_TO_DATE, credential_status
from services.kinds.repository_credential.validation import SECRET_REFERENCE, accept, connections
from services.kinds.shared.api_group import FINALIZER
from services.kinds.shared.kind import CheckReasons, Column, CustomKind, WaitExample, condition_column

KIND = CustomKind(
    resource=REPOSITORY_CREDENTIAL,
    default_quota=100,
    description="How GitOpsDeployments of the same namespace log in to a private Git repository.",
    purpose="logs in to a private repository",
    example=Path(__file__).with_name("example.yaml"),
    spec=RepositoryCredentialSpec,
    status=RepositoryCredentialStatus,
    columns=(
        condition_column("Valid", catalogue.CREDENTIAL, "status"),
        condition_column("Reason", catalogue.CREDENTIAL, "reason"),
        Column("Repository", ".spec.repository", is_wide=True),
        condition_column("Message", catalogue.CREDENTIAL, "message", is_wide=True),
    ),
    short_names=("gcred",),
    waits=(WaitExample("the repository was read with it", f"condition={catalogue.CREDENTIAL}"),),
    catalogue=catalogue.ENTRIES,
    reference=SECRET_REFERENCE,
    finalizer=FINALIZER,
    audited=True,
    accept_spec=accept,
    connections=connections,
    check_reasons=CheckReasons(UP_TO_DATE, catalogue.ENGINE_REFUSED[0].reason),
    compile_status=credential_status,
)

"""Conditions of a GitOpsDeploymentRepositoryCredential: always these three, sorted by type."""

from __future__ import annotations

from services.kinds.repository_credential.model import CREDENTIAL_SECRET
from services.kinds.shared.catalogue import ERROR, PARKED, THROTTLING, UNKNOWN_ERROR, Entry, Reason

CREDENTIAL = "ValidRepositoryCredential"
URL = "ValidRepositoryURL"

Outcome = tuple[Entry, Entry, Entry]
"""ErrorOccurred, ValidRepositoryCredential, ValidRepositoryURL."""

URL_EXISTS = Entry(URL, "True", "ValidRepositoryUrl", "Repository {url} exists", "The repository answers.")


def _refused(reason: str, message: str, meaning: str, remedy: str) -> Outcome:
    return (
        Entry(ERROR, "True", reason, message, meaning, remedy),
        Entry(CREDENTIAL, "False", reason, message, meaning, remedy),
        Entry(URL, "False", reason, message, meaning, remedy),
    )


def _pending(message: str, meaning: str) -> Outcome:
    remedy = "Wait some seconds. If it stays, ask your operators."
    return (
        Entry(ERROR, "Unknown", Reason.CHECKING, message, meaning, remedy),
        Entry(CREDENTIAL, "Unknown", Reason.CHECKING, message, meaning, remedy),
        Entry(URL, "Unknown", Reason.CHECKING, message, meaning, remedy),
    )


CHECKING = _pending(
    "the credentials are being checked", "The resource or its Secret is new or has changed, and was not tried yet."
)
AWAITING_SECRET = _pending(
    "waiting for the content of Secret '{secret}'", "The Secret was seen; what is in it is on its way."
)
INVALID_SPEC = _refused(
    Reason.INVALID_SPEC, "{detail}", "A field of the spec has a wrong type or is too long.", "Correct the field."
)
BEYOND_QUOTA = _refused(
    Reason.QUOTA_EXCEEDED,
    "quota exceeded: {detail}",
    "Your namespace has too many repository credentials or Secrets, or they are too large.",
    "Delete what you do not need; this resource is looked at again when there is room. Or ask for more.",
)
VALID: Outcome = (
    Entry(ERROR, "False", "RepositoryCredentialUpToDate", "RepositoryCredentials are Valid", "All is well."),
    Entry(
        CREDENTIAL,
        "True",
        "RepositoryCredentialUpToDate",
        "Repository Credentials provided {secret} for Repository {url} are valid",
        "The repository could be read with these credentials, at most ten minutes ago.",
    ),
    URL_EXISTS,
)
_INVALID = _refused(
    "InvalidCredentials",
    "Repository Credentials provided {secret} for Repository {url} are invalid",
    "The server refuses these credentials or does not answer, or the Secret has neither username and password nor "
    "sshPrivateKey.",
    "Correct the Secret; the change is seen at once. Check that the user may read the repository.",
)
INVALID: Outcome = (_INVALID[0], _INVALID[1], URL_EXISTS)
URL_NOT_FOUND = _refused(
    "InvalidRepositoryUrl",
    "Repository does not exist: {detail}",
    "There is no such repository or host, the credentials may not see it, its server is not one that is trusted, or "
    "its URL is not allowed.",
    "Correct spec.repository. Many servers say 'not found' when a user lacks access: check that too.",
)
OTHER_LETTERS = "is not spelled as its server spells it; write upper and lower case letters as the server shows them"
NO_ROOM = (
    "cannot be taken: this namespace has had too many private repositories; what nobody names any more is forgotten in "
    "time, or ask your operators"
)
SECRET_NOT_SPECIFIED = _refused(
    "SecretNotSpecified", "Secret field is missing value", "spec.secret is empty.", "Name the Secret in spec.secret."
)
SECRET_NOT_FOUND = _refused(
    Reason.SECRET_NOT_FOUND,
    "Secret specified not found",
    "There is no Secret of this name and type in this namespace. Deleting it takes the login back: it is removed from "
    "the engine, and a private repository is closed to this namespace.",
    f"Create the Secret with type {CREDENTIAL_SECRET}, or correct spec.secret; either is seen at once.",
)
SECRET_INVALID_TYPE = _refused(
    "SecretInvalidType",
    f"Secret has an invalid type, must be {CREDENTIAL_SECRET}",
    "There is a Secret of this name, of another type. One that was made after this resource is noticed within a "
    "minute; until then it says SecretNotFound.",
    "Create it anew with this type: a Secret's type cannot be changed.",
)
USE_REFUSED = _refused(
    Reason.SECRET_USE_REFUSED,
    "{detail}",
    "The Secret was sealed for another URL than the one that it shall be sent to. It was sent nowhere. Either the two "
    "are not both known yet where deployments are run, or somebody has changed the URL between here and there.",
    "Wait some seconds. If it stays, ask your operators: they have to find out who changed it.",
)
ENGINE_REFUSED = _refused("KubernetesError", UNKNOWN_ERROR.message, UNKNOWN_ERROR.meaning, UNKNOWN_ERROR.remedy)

ENTRIES = (
    *VALID,
    *CHECKING,
    *AWAITING_SECRET,
    *INVALID_SPEC,
    *BEYOND_QUOTA,
    *INVALID[:2],
    *URL_NOT_FOUND,
    *SECRET_NOT_SPECIFIED,
    *SECRET_NOT_FOUND,
    *SECRET_INVALID_TYPE,
    *USE_REFUSED,
    *ENGINE_REFUSED,
    *PARKED,
    *THROTTLING,
)

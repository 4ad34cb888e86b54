"""Which repository credentials are accepted, and their three conditions."""

from __future__ import annotations

from typing import Any

import pytest

from services.common.addresses import AddressPolicy
from services.kinds.registry import REGISTRY
from services.kinds.repository_credential.status import credential_status
from services.kinds.repository_credential.validation import SECRET_REFERENCE, accept
from services.kinds.secret.rules import read_secret
from services.kinds.shared.conditions import Refused
from services.kinds.shared.incarnation import refuse_resource
from services.kinds.shared.resource import Check, PlainResource
from tests.unit.kinds.given import (
    CREDENTIAL_TYPE,
    DIGEST,
    ENVIRONMENT_TYPE,
    check,
    conditions,
    credential,
    inputs,
    secret,
)

STRICT = AddressPolicy()
LIMITS = REGISTRY.limits()
URL = "https://git.example.com/team/app.git"
ERROR, LOGIN, REPOSITORY = "ErrorOccurred", "ValidRepositoryCredential", "ValidRepositoryURL"
EXISTS = ("True", "ValidRepositoryUrl", f"Repository {URL} exists")
INVALID = f"Repository Credentials provided login for Repository {URL} are invalid"
WRONG_TYPE = "Secret has an invalid type, must be managed-gitops.redhat.com/repository-credential"


def wrong(reason: str, message: str) -> dict[str, tuple[str, str, str]]:
    return {
        ERROR: ("True", reason, message),
        LOGIN: ("False", reason, message),
        REPOSITORY: ("False", reason, message),
    }


def pending(message: str) -> dict[str, tuple[str, str, str]]:
    return dict.fromkeys((ERROR, LOGIN, REPOSITORY), ("Unknown", "Checking", message))


def problem_of(resource: PlainResource, row: PlainResource | None) -> Refused | None:
    try:
        accept(resource, STRICT, LIMITS)
        read_secret(SECRET_REFERENCE, resource, row, LIMITS)
    except Refused as refused:
        return refused
    return None


def shown(resource: PlainResource, row: PlainResource | None, result: Check | None = None, previous: str = "{}") -> str:
    problem = problem_of(resource, row)
    return credential_status(
        inputs(refuse_resource(resource, problem), result=result, digest=None if problem else DIGEST, previous=previous)
    )


GOOD = secret("login", CREDENTIAL_TYPE)


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        pytest.param(
            check("RepositoryCredentialUpToDate"),
            {
                ERROR: ("False", "RepositoryCredentialUpToDate", "RepositoryCredentials are Valid"),
                LOGIN: (
                    "True",
                    "RepositoryCredentialUpToDate",
                    f"Repository Credentials provided login for Repository {URL} are valid",
                ),
                REPOSITORY: EXISTS,
            },
            id="ok",
        ),
        pytest.param(
            check("InvalidCredentials", "401"),
            {
                ERROR: ("True", "InvalidCredentials", INVALID),
                LOGIN: ("False", "InvalidCredentials", INVALID),
                REPOSITORY: EXISTS,
            },
            id="bad-login",
        ),
        pytest.param(
            check("InvalidRepositoryUrl", "repository not found"),
            wrong("InvalidRepositoryUrl", "Repository does not exist: repository not found"),
            id="not-found",
        ),
        pytest.param(check("SomethingNew", "why"), wrong("SomethingNew", "why"), id="unknown-reason"),
        pytest.param(None, pending("the credentials are being checked"), id="not-checked-yet"),
        pytest.param(
            check("RepositoryCredentialUpToDate", digest="older"),
            pending("the credentials are being checked"),
            id="older-manifest-checked",
        ),
    ],
)
def test_status_when_an_agent_has_checked_or_not_then_the_three_conditions_are_as_documented(
    result: Check | None, expected: dict[str, tuple[str, str, str]]
) -> None:
    assert conditions(shown(credential(), GOOD, result)) == expected


@pytest.mark.parametrize(
    ("resource", "row", "expected"),
    [
        pytest.param(
            credential({"secret": ""}),
            None,
            wrong("SecretNotSpecified", "Secret field is missing value"),
            id="no-secret-name",
        ),
        pytest.param(credential(), None, wrong("SecretNotFound", "Secret specified not found"), id="secret-missing"),
        pytest.param(
            credential(secret_type=CREDENTIAL_TYPE),
            None,
            pending("waiting for the content of Secret 'login'"),
            id="secret-on-its-way",
        ),
        pytest.param(
            credential(secret_type="Opaque"), None, wrong("SecretInvalidType", WRONG_TYPE), id="secret-of-other-type"
        ),
        pytest.param(
            credential(),
            secret("login", ENVIRONMENT_TYPE),
            wrong("SecretInvalidType", WRONG_TYPE),
            id="secret-of-an-environment",
        ),
        pytest.param(
            credential(),
            secret("login", CREDENTIAL_TYPE, omitted="too large"),
            wrong("InvalidCredentials", "too large"),
            id="secret-omitted",
        ),
        pytest.param(
            credential(),
            secret("login", CREDENTIAL_TYPE, over_quota=True),
            wrong("QuotaExceeded", LIMITS.message("Secret")),
            id="secret-beyond-quota",
        ),
        pytest.param(
            credential(over_quota=True),
            GOOD,
            wrong("QuotaExceeded", LIMITS.message("GitOpsDeploymentRepositoryCredential")),
            id="beyond-quota",
        ),
        pytest.param(credential(omitted="too long"), GOOD, wrong("InvalidSpec", "too long"), id="spec-omitted"),
    ],
)
def test_status_when_it_is_refused_then_the_three_conditions_are_as_documented(
    resource: PlainResource, row: PlainResource | None, expected: dict[str, tuple[str, str, str]]
) -> None:
    text = shown(resource, row, check("RepositoryCredentialUpToDate"))
    assert conditions(text) == expected


@pytest.mark.parametrize(
    "url",
    ["http://h.example/a", "file:///a", "ext::x", "https://u:p@h/a", "https://127.0.0.1/a", "https://h.example/*", ""],
)
def test_credential_when_its_repository_is_refused_then_the_url_is_invalid(url: str) -> None:
    states = conditions(shown(credential({"repository": url}), GOOD))
    assert [(state[0], state[1]) for state in states.values()] == [
        ("True", "InvalidRepositoryUrl"),
        ("False", "InvalidRepositoryUrl"),
        ("False", "InvalidRepositoryUrl"),
    ]
    assert states[ERROR][2].startswith("spec.repository ")


@pytest.mark.parametrize("changes", [{}, {"held_back_ms": 2500}])
def test_status_when_written_then_its_conditions_are_sorted_by_type(changes: dict[str, Any]) -> None:
    types = list(conditions(shown(credential(**changes), GOOD)))
    assert types == sorted(types)
    assert len(types) == 3 + len(changes)


def test_status_when_nothing_changes_then_it_is_the_same_text() -> None:
    first = shown(credential(), GOOD, check("InvalidCredentials"))
    problem = credential_status(
        inputs(credential(), result=check("InvalidCredentials"), digest=DIGEST, previous=first, second=60)
    )
    assert problem == first


def test_credential_when_its_repository_has_braces_then_the_message_has_them_too() -> None:
    refusal = problem_of(credential({"repository": "https://h.example/{a}"}), GOOD)
    assert refusal is not None
    assert "'{'" in refusal.message

"""Which environments are accepted, what they show, and when deployments may use them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from services.common.addresses import AddressPolicy
from services.kinds.managed_environment.catalogue import ENTRIES
from services.kinds.managed_environment.rules import Usability, is_usable
from services.kinds.managed_environment.status import environment_status
from services.kinds.managed_environment.validation import SECRET_REFERENCE, accept
from services.kinds.registry import REGISTRY
from services.kinds.secret.rules import read_secret, without_secret
from services.kinds.shared.conditions import Refused
from services.kinds.shared.incarnation import refuse_resource
from services.kinds.shared.resource import Check, PlainResource
from tests.unit.kinds.given import (
    CREDENTIAL_TYPE,
    DIGEST,
    ENVIRONMENT_TYPE,
    check,
    conditions,
    environment,
    inputs,
    secret,
)

STRICT = AddressPolicy()
LIMITS = REGISTRY.limits()
CONNECTION = "ConnectionInitializationSucceeded"
QUOTA = LIMITS.message("GitOpsDeploymentManagedEnvironment")


def refused(resource: PlainResource) -> tuple[str, str, str]:
    with pytest.raises(Refused) as error:
        accept(resource, STRICT, LIMITS)
    return (error.value.status, error.value.reason, error.value.message)


def unsealed(resource: PlainResource, row: PlainResource | None) -> tuple[str, str, str]:
    with pytest.raises(Refused) as error:
        read_secret(SECRET_REFERENCE, resource, row, LIMITS)
    return (error.value.status, error.value.reason, error.value.message)


def status(
    problem: Refused | None = None, result: Check | None = None, previous: str = "{}", second: int = 0, **changes: Any
) -> str:
    digest = None if problem else DIGEST
    row = refuse_resource(environment(**changes), problem)
    return environment_status(inputs(row, result=result, digest=digest, previous=previous, second=second))


def test_environment_when_its_spec_is_good_then_it_is_accepted_with_documented_defaults() -> None:
    spec = accept(environment(), STRICT, LIMITS)
    assert (spec.api_url, spec.namespaces, spec.cluster_resources) == ("https://api.example.com:6443", None, False)
    assert not spec.create_new_service_account


@pytest.mark.parametrize(
    "url",
    [
        "https://1.2.3.4",
        "https://api.example.com/",
        "HTTPS://Api.Example.com:6443",
        "https://rancher.corp/k8s/clusters/c-1",
    ],
)
def test_environment_when_its_api_url_is_ordinary_then_it_is_accepted(url: str) -> None:
    assert accept(environment({"apiURL": url}), STRICT, LIMITS).api_url == url


@pytest.mark.parametrize(
    ("url", "part"),
    [
        pytest.param("https://h?a=b", "the API URL must not have ? or & values", id="query"),
        pytest.param("https://h.example/a&b", "the API URL must not have ? or & values", id="ampersand"),
        pytest.param("http://h.example", "cluster api url must start with https://", id="http"),
        pytest.param("", "cluster api url must start with https://", id="empty"),
        pytest.param("h:6443", "cluster api url must start with https://", id="no-scheme"),
        pytest.param("https:///x", "host that cannot be used", id="no-host"),
        pytest.param("https://u@h.example", "must not carry a user name", id="user"),
        pytest.param("https://u:p@h.example", "must not carry a user name", id="password"),
        pytest.param("https://h#x", "must not have a fragment", id="fragment"),
        pytest.param("https://h.example:0", "port", id="port"),
        pytest.param("https://h.example/\u00fc", "printable ASCII", id="not-ascii"),
        pytest.param("https://h\n", "printable ASCII", id="line-feed"),
        pytest.param("https://127.0.0.1:6443", "loopback", id="loopback"),
        pytest.param("https://[::1]:6443", "loopback", id="loopback-ipv6"),
        pytest.param("https://0x7f.1", "not an address", id="loopback-hidden"),
        pytest.param("https://169.254.169.254", "link-local", id="metadata"),
        pytest.param("https://kubernetes.default.svc", "platform's own", id="own-cluster"),
        pytest.param("https://h.example/a/../b", "path", id="dot-dot"),
        pytest.param("https://h.example/a\\b", "cluster api url must start with https://|path", id="backslash"),
    ],
)
def test_environment_when_its_api_url_is_not_supported_then_the_reason_says_so(url: str, part: str) -> None:
    state, reason, message = refused(environment({"apiURL": url}))
    assert (state, reason) == ("Unknown", "UnsupportedAPIURL")
    assert any(choice in message for choice in part.split("|"))


@pytest.mark.parametrize("namespace", ["", "BAD", "a.b", "-a", "a" * 64, "a\n", "\u0430"])
def test_environment_when_a_namespace_is_no_label_then_the_list_is_invalid(namespace: str) -> None:
    state, reason, message = refused(environment({"namespaces": ["good", namespace]}))
    assert (state, reason) == ("Unknown", "InvalidNamespaceList")
    assert message.endswith(f"namespaces list: {namespace}")


@pytest.mark.parametrize(
    ("resource", "expected"),
    [
        pytest.param(environment(omitted="too long"), ("Unknown", "InvalidSpec", "too long"), id="omitted"),
        pytest.param(
            replace(environment(), spec="{}"), ("Unknown", "InvalidSpec", "spec.apiURL is missing; set it"), id="empty"
        ),
        pytest.param(environment(over_quota=True), ("Unknown", "QuotaExceeded", QUOTA), id="quota"),
    ],
)
def test_environment_when_there_is_nothing_to_work_with_then_it_is_refused(
    resource: PlainResource, expected: tuple[str, str, str]
) -> None:
    assert refused(resource) == expected


def test_secret_when_it_is_there_then_name_version_and_content_are_passed_on() -> None:
    content = read_secret(SECRET_REFERENCE, environment(), secret("creds", ENVIRONMENT_TYPE), LIMITS)
    assert (content.name, content.version, content.sealed) == ("creds", "77", "eyJ.sealed")


NOT_FOUND = ("False", "SecretNotFound", "secret 'creds' referenced by credentialsSecret was not found")
AWAITED = ("Unknown", "Checking", "waiting for the content of Secret 'creds'")


@pytest.mark.parametrize(
    ("resource", "row", "expected"),
    [
        pytest.param(environment(), None, NOT_FOUND, id="missing"),
        pytest.param(environment(), secret("creds", ENVIRONMENT_TYPE, present=False), NOT_FOUND, id="gone"),
        pytest.param(environment(secret_type=ENVIRONMENT_TYPE), None, AWAITED, id="on-its-way"),
        pytest.param(without_secret(environment(secret_type=ENVIRONMENT_TYPE)), None, NOT_FOUND, id="deleted"),
        pytest.param(
            environment(secret_type="Opaque"),
            None,
            ("False", "InvalidSecretType", "invalid secret type: Opaque"),
            id="other-type",
        ),
        pytest.param(
            environment(),
            secret("creds", CREDENTIAL_TYPE),
            ("False", "InvalidSecretType", f"invalid secret type: {CREDENTIAL_TYPE}"),
            id="type-of-repository-credentials",
        ),
        pytest.param(
            environment(),
            secret("creds", ENVIRONMENT_TYPE, omitted="the Secret is too large"),
            ("False", "UnableToParseKubeconfigData", "unable to parse kubeconfig data: the Secret is too large"),
            id="omitted",
        ),
        pytest.param(
            environment(),
            secret("creds", ENVIRONMENT_TYPE, over_quota=True),
            ("Unknown", "QuotaExceeded", LIMITS.message("Secret")),
            id="beyond-quota",
        ),
        pytest.param(
            environment({"credentialsSecret": ""}),
            None,
            ("False", "SecretNotFound", "secret '' referenced by credentialsSecret was not found"),
            id="unnamed",
        ),
    ],
)
def test_secret_when_it_cannot_be_used_then_the_documented_reason_is_given(
    resource: PlainResource, row: PlainResource | None, expected: tuple[str, str, str]
) -> None:
    assert unsealed(resource, row) == expected


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("Succeeded", "True"),
        ("MissingKubeConfigField", "False"),
        ("UnableToParseKubeconfigData", "False"),
        ("UnableToLocateContext", "False"),
        ("UnableToRetrieveRestConfig", "False"),
        ("UnableToCreateClient", "False"),
        ("UnableToInstallServiceAccount", "False"),
        ("UnableToValidateClusterCredentials", "Unknown"),
        ("UnableToCreateClusterCredentials", "Unknown"),
        ("SomethingNew", "Unknown"),
    ],
)
def test_status_when_an_agent_has_checked_then_the_condition_has_the_documented_status(
    reason: str, expected: str
) -> None:
    assert conditions(status(result=check(reason, "why"))) == {CONNECTION: (expected, reason, "why")}


def test_status_when_it_succeeds_then_the_condition_says_so_without_a_message() -> None:
    assert conditions(status(result=check("Succeeded"))) == {CONNECTION: ("True", "Succeeded", "")}


@pytest.mark.parametrize("result", [None, check("Succeeded", digest="older")])
def test_status_when_this_manifest_was_not_checked_yet_then_it_says_that_it_is_being_checked(
    result: Check | None,
) -> None:
    assert conditions(status(result=result)) == {CONNECTION: ("Unknown", "Checking", "the connection is being checked")}


def test_status_when_the_spec_is_refused_then_an_older_check_does_not_count() -> None:
    shown = status(Refused("Unknown", "UnsupportedAPIURL", "no"), check("Succeeded"))
    assert conditions(shown) == {CONNECTION: ("Unknown", "UnsupportedAPIURL", "no")}


def test_status_when_nothing_changes_then_it_is_the_same_text() -> None:
    first = status(result=check("Succeeded"))
    assert status(result=check("Succeeded"), previous=first, second=60) == first


def test_status_when_something_changes_then_the_transition_is_timed() -> None:
    first = status(result=check("UnableToCreateClient", "a"))
    second = status(result=check("UnableToCreateClient", "b"), previous=first, second=60)
    assert '"lastTransitionTime":"2026-05-04T12:01:00Z"' in second


def test_status_when_it_is_beyond_the_quota_then_an_error_occurred_and_is_resolved_later() -> None:
    beyond = status(Refused("Unknown", "QuotaExceeded", QUOTA))
    assert conditions(beyond)["ErrorOccurred"] == ("True", "ErrorOccurred", QUOTA)
    within = status(result=check("Succeeded"), previous=beyond, second=1)
    assert conditions(within) == {
        CONNECTION: ("True", "Succeeded", ""),
        "ErrorOccurred": ("False", "ErrorOccurredResolved", ""),
    }


def test_status_when_the_change_was_held_back_then_throttled_shows_until_one_was_not() -> None:
    held = status(result=check("Succeeded"), held_back_ms=7900)
    assert conditions(held)["Throttled"] == (
        "True",
        "Throttled",
        "changes of this namespace arrive faster than allowed; this one was held back for 7 s",
    )
    later = status(result=check("Succeeded"), previous=held, held_back_ms=999)
    assert conditions(later)["Throttled"] == ("False", "ThrottledResolved", "")
    assert "Throttled" not in conditions(status(result=check("Succeeded"), held_back_ms=999))


REFUSED = Refused("False", "SecretNotFound", "")
PENDING = Refused("Unknown", "Checking", "")


@pytest.mark.parametrize(
    ("problem", "result", "holds", "expected"),
    [
        pytest.param(None, None, False, Usability.PENDING, id="never-checked"),
        pytest.param(None, check("Succeeded"), False, Usability.USABLE, id="checked"),
        pytest.param(None, check("Succeeded", digest="old"), True, Usability.USABLE, id="older-manifest-succeeded"),
        pytest.param(None, check("Succeeded", digest="old"), False, Usability.PENDING, id="another-cluster-succeeded"),
        pytest.param(None, check("UnableToCreateClient"), False, Usability.UNUSABLE, id="failed"),
        pytest.param(None, check("UnableToCreateClient", digest="old"), False, Usability.PENDING, id="older-failed"),
        pytest.param(None, check("UnableToCreateClient"), True, Usability.USABLE, id="failed-after-success"),
        pytest.param(REFUSED, None, False, Usability.UNUSABLE, id="refused"),
        pytest.param(REFUSED, check("Succeeded"), True, Usability.UNUSABLE, id="refused-after-success"),
        pytest.param(PENDING, None, False, Usability.PENDING, id="secret-on-its-way"),
        pytest.param(PENDING, check("Succeeded"), True, Usability.USABLE, id="secret-on-its-way-after-success"),
    ],
)
def test_environment_when_deployments_ask_then_its_usability_follows_from_checks(
    problem: Refused | None, result: Check | None, holds: bool, expected: Usability
) -> None:
    assert is_usable(problem, result, None if problem else DIGEST, holds_this_cluster=holds) is expected


def test_catalogue_when_it_names_reasons_of_the_condition_then_each_has_one_status() -> None:
    statuses = [(entry.reason, entry.status) for entry in ENTRIES if entry.type == CONNECTION]
    assert len(dict(statuses)) == len(set(statuses))

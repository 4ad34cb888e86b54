"""Which specs are accepted, and what users are told about the others."""

from __future__ import annotations

import json
from typing import Any

import pytest

from services.common.errors import Permanent
from services.planner.kinds.gitops_deployment_spec import accept, normalised
from tests.unit.planner.given import API_VERSION, spec

CREATE = (
    "Unable to reconcile the ManagedEnvironment. Verify that the ManagedEnvironment and Secret are correctly defined, "
    "and have valid credentials"
)
UPDATE = (
    "unable to reconcile the ManagedEnvironment resource. Ensure that the ManagedEnvironment exists, it references a "
    "Secret, and the Secret is valid"
)
SYNC_OPTION = (
    "the specified sync option in .spec.syncPolicy.syncOptions is either mispelled or is not supported by "
    "GitOpsDeployment"
)


def refusal(content: dict[str, Any] | str, *, exists: bool = False, api_version: str = API_VERSION) -> str:
    with pytest.raises(Permanent) as refused:
        accept(api_version, content if isinstance(content, str) else json.dumps(content), exists=exists)
    return str(refused.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(
            spec(source={"path": ""}), "spec.source.path is a required field and it cannot be empty", id="path-empty"
        ),
        pytest.param(spec(source={"path": "/"}), "spec.source.path cannot be '/'", id="path-root"),
        pytest.param(spec(source={"path": "'/'"}), "spec.source.path cannot be '/'", id="path-root-after-filtering"),
        pytest.param(spec(destination={"environment": "prod", "namespace": "x"}), CREATE, id="environment"),
        pytest.param(spec(destination={"environment": "prod"}), CREATE, id="environment-without-namespace"),
        pytest.param(
            spec(destination={"namespace": "kube-system"}),
            "the environment field should not be empty when the namespace is non-empty",
            id="namespace-without-environment",
        ),
        pytest.param(spec(syncPolicy={"syncOptions": ["Replace=true"]}), SYNC_OPTION, id="sync-option"),
        pytest.param(spec(type="sometimes"), "spec type must be manual or automated", id="type"),
        pytest.param(
            spec(source={"path": ""}, destination={"environment": "prod"}),
            "spec.source.path is a required field and it cannot be empty",
            id="path-before-environment",
        ),
        pytest.param(
            spec(destination={"environment": "prod"}, syncPolicy={"syncOptions": ["X"]}),
            CREATE,
            id="environment-before-sync-option",
        ),
    ],
)
def test_spec_when_a_rule_is_broken_then_the_documented_message_is_given(content: dict[str, Any], message: str) -> None:
    assert refusal(content) == message


def test_spec_when_its_environment_is_unusable_on_an_update_then_the_message_is_that_of_updates() -> None:
    assert refusal(spec(destination={"environment": "prod", "namespace": "x"}), exists=True) == UPDATE


@pytest.mark.parametrize(
    "repository", ["*", "https://git.example.com/*", "!https://a/b", "https://a/{b,c}", "a?", "[a]"]
)
def test_spec_when_its_repository_is_a_pattern_then_it_is_refused(repository: str) -> None:
    assert "must name one repository" in refusal(spec(source={"repoURL": repository}))


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        pytest.param({}, ["spec.source", "missing", "set it"], id="source-missing"),
        pytest.param(
            spec(source={"repoURL": None}), ["spec.source.repoURL", "string", "correct"], id="repository-null"
        ),
        pytest.param(spec(source={"path": 7}), ["spec.source.path", "string"], id="path-a-number"),
        pytest.param(spec(type={"a": 1}), ["spec.type", "string"], id="type-an-object"),
        pytest.param(spec(source={"path": "x" * 2000}), ["spec.source.path", "at most 1024"], id="path-too-long"),
        pytest.param("[]", ["spec", "correct"], id="a-list"),
        pytest.param("{", ["spec", "Invalid JSON"], id="not-json"),
        pytest.param("null", ["spec"], id="null"),
    ],
)
def test_spec_when_it_does_not_fit_the_model_then_field_problem_and_fix_are_named(
    content: dict[str, Any] | str, parts: list[str]
) -> None:
    message = refusal(content)
    assert all(part in message for part in parts), message
    assert "Traceback" not in message
    assert "\n" not in message


def test_spec_when_a_value_is_enormous_then_the_message_is_short() -> None:
    assert len(refusal(spec(type={"x" * 100_000: "y" * 100_000}))) < 1100
    assert len(refusal(spec(source={"path": "x" * 3_000_000}))) < 1100


def test_spec_when_its_api_version_is_unknown_then_both_versions_are_named() -> None:
    message = refusal(spec(), api_version="managed-gitops.redhat.com/v9" + "9" * 500)
    assert "v9" in message
    assert API_VERSION in message
    assert len(message) < 300


def test_spec_when_it_holds_unwanted_characters_then_they_are_removed() -> None:
    content = spec(source={"repoURL": "https://g/\"o'/r`;&%\r\n", "path": "a\u0000\t\x7fb", "targetRevision": "m;ain"})
    accepted = accept(API_VERSION, json.dumps(content), exists=False)
    assert (accepted.source.repo_url, accepted.source.path) == ("https://g/o/r", "ab")
    assert accepted.source.target_revision == "main"


def test_spec_when_optional_parts_are_empty_then_they_count_as_left_out() -> None:
    content = spec(source={"targetRevision": ""}, destination={"environment": "", "namespace": ""})
    accepted = accept(API_VERSION, json.dumps(content), exists=False)
    assert accepted.source.target_revision is None
    assert accepted.destination.namespace is None


@pytest.mark.parametrize(
    ("repository", "expected"),
    [
        ("https://GitHub.com/Foo/Bar.git", "https://github.com/foo/bar"),
        ("  https://github.com/foo/bar ", "https://github.com/foo/bar"),
        ("git@github.com:Foo/Bar.git", "git@github.com/foo/bar"),
        ("ssh://git@github.com/foo/bar", "git@github.com/foo/bar"),
        ("https://h/a.git.git", "https://h/a.git"),
    ],
)
def test_repository_when_normalised_then_it_is_as_documented(repository: str, expected: str) -> None:
    assert normalised(repository) == expected

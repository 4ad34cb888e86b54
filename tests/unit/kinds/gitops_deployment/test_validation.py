"""Which specs are accepted, where they may go, and what users are told about the others."""

from __future__ import annotations

import json
from typing import Any

import pytest

from services.common.addresses import AddressPolicy
from services.common.errors import Permanent, Wait
from services.kinds.gitops_deployment.validation import accept, resolve
from services.kinds.managed_environment.rules import EnvironmentView, Usability
from tests.unit.planner.given import API_VERSION, spec

STRICT = AddressPolicy()
CREATE = (
    "Unable to reconcile the ManagedEnvironment. Verify that the ManagedEnvironment and Secret are correctly defined, "
    "and have valid credentials"
)
UPDATE = (
    "unable to reconcile the ManagedEnvironment resource. Ensure that the ManagedEnvironment exists, it references a "
    "Secret, and the Secret is valid"
)
NAMESPACE_ON_CREATE = "the namespace specified in the destination field is invalid"
NAMESPACE_ON_UPDATE = "destination namespace specified in the .spec.Destination.Namespace field is invalid"
SYNC_OPTION = (
    "the specified sync option in .spec.syncPolicy.syncOptions is either mispelled or is not supported by "
    "GitOpsDeployment"
)
OUTSIDE = "spec.source.path must be a folder inside the repository"


def refusal(content: dict[str, Any] | str, *, api_version: str = API_VERSION) -> str:
    with pytest.raises(Permanent) as refused:
        accept(api_version, content if isinstance(content, str) else json.dumps(content), STRICT)
    return str(refused.value)


def view(usability: Usability = Usability.USABLE, namespaces: tuple[str, ...] = ()) -> EnvironmentView:
    return EnvironmentView("e1", "prod", usability, namespaces, cluster_resources=False)


def resolved(content: dict[str, Any], *views: EnvironmentView, exists: bool = False) -> EnvironmentView | None:
    spec = accept(API_VERSION, json.dumps(content), STRICT)
    found = {known.name: known for known in views}.get(spec.destination.environment or "")
    return resolve(spec, found, exists=exists)


def unresolved(content: dict[str, Any], *views: EnvironmentView, exists: bool = False) -> str:
    with pytest.raises(Permanent) as refused:
        resolved(content, *views, exists=exists)
    return str(refused.value)


def going_to(namespace: str | None = "apps", **changes: Any) -> dict[str, Any]:
    return spec(destination={"environment": "prod", "namespace": namespace}, **changes)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(
            spec(source={"path": ""}), "spec.source.path is a required field and it cannot be empty", id="path-empty"
        ),
        pytest.param(spec(source={"path": "/"}), "spec.source.path cannot be '/'", id="path-root"),
        pytest.param(spec(source={"path": "'/'"}), "spec.source.path cannot be '/'", id="path-root-after-filtering"),
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
    ],
)
def test_spec_when_a_rule_is_broken_then_the_documented_message_is_given(content: dict[str, Any], message: str) -> None:
    assert refusal(content) == message


@pytest.mark.parametrize(
    "path",
    [
        "..",
        "../x",
        "a/../../x",
        "./../x",
        "a/b/../../../x",
        "/etc",
        "//etc",
        "/..",
        "a\\..\\b",
        "..\\x",
        ".'./x",
        '".."',
    ],
)
def test_spec_when_its_path_leaves_the_repository_then_it_is_refused(path: str) -> None:
    assert refusal(spec(source={"path": path})).startswith(OUTSIDE)


@pytest.mark.parametrize("path", [".", "./", "apps/web/", "a/../b", "..a", "a/..b/c", "-x", "\u00fcber", "a//b"])
def test_spec_when_its_path_stays_inside_then_it_is_accepted(path: str) -> None:
    assert accept(API_VERSION, json.dumps(spec(source={"path": path})), STRICT).source.path == path


@pytest.mark.parametrize("revision", ["-x", "--upload-pack=id", "'-x"])
def test_spec_when_its_revision_is_an_option_then_it_is_refused(revision: str) -> None:
    assert refusal(spec(source={"targetRevision": revision})) == (
        "spec.source.targetRevision: a revision cannot begin with '-'"
    )


@pytest.mark.parametrize(
    ("repository", "part"),
    [
        ("*", "must name one repository: it cannot begin with '!'"),
        ("https://git.example.com/*", "must name one repository"),
        ("file:///etc", "is not supported"),
        ("'ext::id", "transport helper"),
        ("https://127.0.0.1/a", "loopback"),
        ("", "is empty"),
    ],
)
def test_spec_when_its_repository_is_refused_then_the_field_and_the_problem_are_named(
    repository: str, part: str
) -> None:
    message = refusal(spec(source={"repoURL": repository}))
    assert message.startswith("spec.source.repoURL ")
    assert part in message


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
        pytest.param("[" * 100_000, ["spec", "Invalid JSON"], id="a-bomb"),
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
    content = spec(
        source={"repoURL": "https://g.example/\"o'/r`;&%\r\n", "path": "a\u0000\t\x7fb", "targetRevision": "m;ain"}
    )
    accepted = accept(API_VERSION, json.dumps(content), STRICT)
    assert (accepted.source.repo_url, accepted.source.path) == ("https://g.example/o/r", "ab")
    assert accepted.source.target_revision == "main"


def test_spec_when_optional_parts_are_empty_then_they_count_as_left_out() -> None:
    content = spec(source={"targetRevision": ""}, destination={"environment": "", "namespace": ""})
    accepted = accept(API_VERSION, json.dumps(content), STRICT)
    assert accepted.source.target_revision is None
    assert accepted.destination.namespace is None


def test_spec_when_it_names_no_environment_then_it_goes_to_its_own_namespace() -> None:
    assert resolved(spec(), view()) is None


@pytest.mark.parametrize("namespaces", [(), ("apps", "other")])
def test_spec_when_its_environment_is_usable_then_it_goes_there(namespaces: tuple[str, ...]) -> None:
    environment = view(namespaces=namespaces)
    assert resolved(going_to(), environment) is environment


@pytest.mark.parametrize(("exists", "message"), [(False, CREATE), (True, UPDATE)])
@pytest.mark.parametrize("views", [(), (view(Usability.UNUSABLE),)])
def test_spec_when_its_environment_is_missing_or_unusable_then_the_message_is_that_of_the_occasion(
    views: tuple[EnvironmentView, ...], message: str, *, exists: bool
) -> None:
    assert unresolved(going_to(), *views, exists=exists) == message


@pytest.mark.parametrize(("exists", "message"), [(False, NAMESPACE_ON_CREATE), (True, NAMESPACE_ON_UPDATE)])
@pytest.mark.parametrize("namespace", [None, "", "BAD", "a.b", "-a", "\u0430"])
def test_spec_when_its_namespace_is_no_namespace_then_the_message_is_that_of_the_occasion(
    namespace: str | None, message: str, *, exists: bool
) -> None:
    assert unresolved(going_to(namespace), view(), exists=exists) == message


def test_spec_when_its_environment_does_not_list_its_namespace_then_both_are_named() -> None:
    message = unresolved(going_to("kube-system"), view(namespaces=("apps",)))
    assert message == "namespace 'kube-system' is not among the namespaces of the environment 'prod'"


def test_spec_when_its_environment_has_no_check_yet_then_it_waits() -> None:
    with pytest.raises(Wait):
        resolved(going_to(), view(Usability.PENDING))


@pytest.mark.parametrize(
    ("content", "views", "message"),
    [
        pytest.param(
            going_to(None, syncPolicy={"syncOptions": ["X"]}), [], CREATE, id="environment-before-namespace-and-option"
        ),
        pytest.param(
            going_to(None, syncPolicy={"syncOptions": ["X"]}),
            [view()],
            NAMESPACE_ON_CREATE,
            id="namespace-before-option",
        ),
        pytest.param(going_to(syncPolicy={"syncOptions": ["X"]}), [view()], SYNC_OPTION, id="option-last"),
        pytest.param(
            going_to(syncPolicy={"syncOptions": ["X"]}),
            [view(Usability.PENDING)],
            SYNC_OPTION,
            id="its-own-faults-before-waiting",
        ),
    ],
)
def test_spec_when_several_rules_are_broken_then_the_documented_order_decides(
    content: dict[str, Any], views: list[EnvironmentView], message: str
) -> None:
    assert unresolved(content, *views) == message

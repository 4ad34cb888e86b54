from __future__ import annotations

from typing import Any

import pytest

from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT
from services.watcher.followed_kinds import BY_NAME, CUSTOM_KINDS, FOREIGN_KINDS, READING, SECRETS, access_to
from tests.unit.watcher.manifests import resource

_, ENVIRONMENTS, CREDENTIALS, SYNC_RUNS, *_ = CUSTOM_KINDS

SPECS: dict[str, tuple[Any, str]] = {
    "named": ({"credentialsSecret": "kube"}, "kube"),
    "not-named": ({}, ""),
    "empty": ({"credentialsSecret": ""}, ""),
    "no-text": ({"credentialsSecret": ["kube"]}, ""),
    "spec-is-no-object": (["credentialsSecret"], ""),
    "no-spec": (None, ""),
}


@pytest.mark.parametrize(("spec", "expected"), SPECS.values(), ids=SPECS)
def test_secret_when_the_spec_is_like_this_then_it_names_this_one(spec: Any, expected: str) -> None:
    assert ENVIRONMENTS.reference_of(resource(spec=spec)) == expected


def test_secret_when_of_a_repository_credential_then_its_own_field_names_it() -> None:
    assert CREDENTIALS.reference_of(resource(spec={"secret": "login", "credentialsSecret": "no"})) == "login"


def test_sync_run_when_it_names_a_deployment_then_it_refers_to_that() -> None:
    assert SYNC_RUNS.refers_to is GITOPS_DEPLOYMENT
    assert SYNC_RUNS.reference_of(resource(spec={"gitopsDeploymentName": "web"})) == "web"


def test_kinds_when_their_status_holds_what_follows_from_nothing_else_then_their_commands_carry_it() -> None:
    recalling = [each.name for each in CUSTOM_KINDS if each.recalls_status]
    assert recalling == [SYNC_RUNS.name, "PromotionRun", "DeploymentTarget"]


def test_secrets_when_followed_then_only_those_made_for_us_and_never_written() -> None:
    assert SECRETS.parts == (
        "type=managed-gitops.redhat.com/managed-environment",
        "type=managed-gitops.redhat.com/repository-credential",
    )
    assert SECRETS.metadata_only, "content is read when it is sealed and sent"
    assert SECRETS.name not in BY_NAME


def test_kinds_when_they_are_of_other_services_then_their_status_is_only_read_and_they_may_be_missing() -> None:
    assert [each.name for each in FOREIGN_KINDS] == ["Application", "Component", "SpaceRequest"]
    for kind in FOREIGN_KINDS:
        access = access_to(kind)
        changed = () if kind.unowned is None else ("create", "patch", "delete")
        assert (access.verbs, access.may_be_missing) == ((*READING, *changed), True)
        assert kind.name not in BY_NAME
        assert kind.projection.spec_members is not None, "others may put anything into their specs"

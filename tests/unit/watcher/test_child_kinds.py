"""What a watcher may make follows from what the installation's kinds have children of; nothing else does."""

from __future__ import annotations

from dataclasses import replace

import pytest
import yaml

from devstack.generate.manifests import confined_resources, object_variables, watcher_rules
from services.common.kubernetes import SECRET
from services.common.messages import ChildKind, UnownedKind
from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT
from services.kinds.managed_environment.model import MANAGED_ENVIRONMENT
from services.kinds.registry import REGISTRY, Registry
from services.kinds.shared.kind import Kind
from services.watcher.child_kinds import CHILD_RESOURCES
from services.watcher.followed_kinds import access_to, followed
from services.watcher.unowned_kinds import UNOWNED_RESOURCES

MAKING = {"create", "delete"}
NOTHING: dict[str, list[str]] = {"operations": [], "spec": [], "labels": [], "annotations": [], "finalizers": []}


def with_children(*children: ChildKind) -> Registry:
    """Kinds as they are, but GitOpsDeployments have these children, and no other kind has any or changes others."""
    first, *others = REGISTRY.kinds
    others = [replace(kind, children=(), unowned=()) for kind in others]
    return Registry((replace(first, children=children), *others))


def with_unowned(*unowned: UnownedKind) -> Registry:
    """Kinds as they are, but GitOpsDeployments change these, which are followed, too."""
    first, *others = with_children().kinds
    known = {kind.resource for kind in others}
    missing = [UNOWNED_RESOURCES[each].resource for each in UnownedKind]
    followed_too = [Kind(resource=each, default_quota=1) for each in missing if each not in known]
    return Registry((replace(first, unowned=unowned), *others, *followed_too))


def verbs(registry: Registry) -> dict[str, set[str]]:
    """What the generated role grants on whole resources, by plural."""
    rules = yaml.safe_load(watcher_rules(registry))
    granted: dict[str, set[str]] = {}
    for rule in rules:
        for resource in rule["resources"]:
            granted.setdefault(resource, set()).update(rule["verbs"])
    return {resource: allowed for resource, allowed in granted.items() if "/" not in resource}


def test_list_when_read_then_every_child_is_of_a_kind_that_is_followed() -> None:
    assert set(CHILD_RESOURCES) == set(ChildKind)
    assert {each.resource for each in CHILD_RESOURCES.values()} <= {kind.resource for kind in followed(REGISTRY)}


def test_rights_when_no_kind_has_children_then_nothing_may_be_made_and_secrets_are_only_read() -> None:
    granted = verbs(with_children())
    assert not any(MAKING & allowed for allowed in granted.values())
    assert granted[SECRET.plural] == {"get", "list", "watch"}


@pytest.mark.parametrize("child", ChildKind)
def test_rights_when_a_kind_has_children_then_those_alone_may_be_made(child: ChildKind) -> None:
    registry = with_children(child)
    granted = verbs(registry)
    assert {plural for plural, allowed in granted.items() if MAKING & allowed} == {
        CHILD_RESOURCES[child].resource.plural
    }
    assert granted[CHILD_RESOURCES[child].resource.plural] == {"get", "list", "watch", "create", "patch", "delete"}
    asked_for = {
        kind.resource.plural: {verb for verb, of in access_to(kind).rights if not of} for kind in followed(registry)
    }
    assert granted == asked_for, "what is asked for at the start is what is granted"


def test_right_when_it_is_missing_then_what_to_grant_names_it() -> None:
    secrets = next(kind for kind in followed(with_children(ChildKind.SECRET_COPY)) if kind.resource == SECRET)
    assert "get, list, watch, create, patch, delete on secrets" in access_to(secrets).remedy


def test_policy_when_no_secret_is_copied_then_it_is_asked_about_none() -> None:
    groups = [each["apiGroups"] for each in yaml.safe_load(confined_resources(with_children(ChildKind.DEPLOYMENT)))]
    assert [GITOPS_DEPLOYMENT.group] in groups
    assert [SECRET.group] not in groups


def test_policy_when_a_kind_has_children_then_it_knows_them_their_owners_and_the_types_of_copies() -> None:
    registry = with_children(ChildKind.MANAGED_ENVIRONMENT, ChildKind.SECRET_COPY)
    values = {each["name"]: yaml.safe_load(each["expression"]) for each in yaml.safe_load(object_variables(registry))}
    assert values == {
        "children": [f"{MANAGED_ENVIRONMENT.group}/{MANAGED_ENVIRONMENT.plural}", "/secrets"],
        "owners": [f"{GITOPS_DEPLOYMENT.api_version}/{GITOPS_DEPLOYMENT.kind}"],
        "copyTypes": [*REGISTRY.secret_types],
        "unowned": {"": NOTHING},
    }
    resources = {each["apiGroups"][0]: each["resources"] for each in yaml.safe_load(confined_resources(registry))}
    assert resources[SECRET.group] == ["secrets"]


# Objects that are no children


def test_unowned_list_when_read_then_it_has_every_kind() -> None:
    assert set(UNOWNED_RESOURCES) == set(UnownedKind)


@pytest.mark.parametrize("unowned", UnownedKind)
def test_rights_when_a_kind_changes_unowned_objects_then_those_alone_and_only_as_listed(unowned: UnownedKind) -> None:
    known = UNOWNED_RESOURCES[unowned]
    granted = verbs(with_unowned(unowned))
    assert granted[known.resource.plural] >= {"patch", *known.verbs}
    assert {plural for plural, allowed in granted.items() if MAKING & allowed} <= {known.resource.plural}
    assert MAKING & granted[known.resource.plural] == known.verbs


def test_policy_when_a_kind_changes_unowned_objects_then_it_knows_what_of_them() -> None:
    values = {
        each["name"]: yaml.safe_load(each["expression"])
        for each in yaml.safe_load(object_variables(with_unowned(UnownedKind.TARGET)))
    }
    assert values["unowned"] == {
        "": NOTHING,
        "appstudio.redhat.com/deploymenttargets": {
            "operations": ["CREATE", "DELETE"],
            "spec": ["claimRef"],
            "labels": [],
            "annotations": [
                "provisioner.appstudio.redhat.com/claim-uid",
                "provisioner.appstudio.redhat.com/provisioned-by",
            ],
            "finalizers": ["dt.appstudio.redhat.com/finalizer"],
        },
    }

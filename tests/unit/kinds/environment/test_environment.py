"""What follows from an Environment: its ManagedEnvironment, its copied Secret, and what is wrong with it."""

from __future__ import annotations

from typing import Any

import pytest

from services.common.messages import ChildKind
from services.kinds.deployment_target.model import DeploymentTargetSpec
from services.kinds.environment import catalogue as texts
from services.kinds.environment.model import ENVIRONMENT, EnvironmentSpec
from services.kinds.environment.rules import (
    Backing,
    Family,
    decide,
    parent_cycles,
)
from services.kinds.environment.status import environment_status
from services.kinds.managed_environment.model import ENVIRONMENT_SECRET
from services.kinds.secret.rules import NEVER_COPIED, TOO_LARGE
from services.kinds.shared.child_objects import ChildObject
from services.kinds.shared.incarnation import refuse_resource
from services.kinds.shared.reconciled import Problem
from tests.unit.kinds.given import conditions, inputs, resource

ADDRESS = "https://api.example.com:6443"
OPAQUE = "Opaque"
ALONE = Family()


def environment(**spec: Any) -> EnvironmentSpec:
    return EnvironmentSpec.model_validate({"displayName": "Staging", "deploymentStrategy": "Manual"} | spec)


def credentials(**changes: Any) -> dict[str, Any]:
    return {
        "targetNamespace": "shop",
        "apiURL": ADDRESS,
        "clusterCredentialsSecret": "kubeconfig",
        "allowInsecureSkipTLSVerify": True,
    } | changes


CLAIMING = {"target": {"deploymentTargetClaim": {"claimName": "staging"}}}
PLAIN = environment()
OWN = environment(unstableConfigurationFields={"kubernetesCredentials": credentials()})
CLAIMED = environment(configuration=CLAIMING)
BOTH = environment(configuration=CLAIMING, unstableConfigurationFields={"kubernetesCredentials": credentials()})
TYPE_ONLY = environment(configuration=CLAIMING, unstableConfigurationFields={"clusterType": "OpenShift"})


def target(namespace: str = "spaces-1", secret: str = "space") -> DeploymentTargetSpec:
    return DeploymentTargetSpec.model_validate(
        {
            "deploymentTargetClassName": "isolation-level-namespace",
            "kubernetesCredentials": {
                "defaultNamespace": namespace,
                "apiURL": ADDRESS,
                "clusterCredentialsSecret": secret,
                "allowInsecureSkipTLSVerify": False,
            },
            "claimRef": "staging",
        }
    )


def managed(**spec: Any) -> ChildObject:
    """With every field, so that drift in any is undone."""
    content = {
        "apiURL": ADDRESS,
        "credentialsSecret": "kubeconfig",
        "allowInsecureSkipTLSVerify": False,
        "createNewServiceAccount": False,
        "namespaces": [],
        "clusterResources": False,
    }
    return ChildObject(ChildKind.MANAGED_ENVIRONMENT, "managed-environment-staging", content | spec)


def wanted(spec: EnvironmentSpec, backing: Backing) -> tuple[ChildObject, ...] | None:
    return decide("staging", spec, backing, ALONE).children


COPY = ChildObject(
    ChildKind.SECRET_COPY,
    "managed-environment-secret-staging",
    {"from": "space", "type": ENVIRONMENT_SECRET},
    {"appstudio.openshift.io/environment-secret": "staging"},
)
HAS_KUBECONFIG = {"kubeconfig": ENVIRONMENT_SECRET}
HAS_SPACE = {"space": OPAQUE}

WANTED: dict[str, tuple[EnvironmentSpec, Backing, tuple[ChildObject, ...] | None]] = {
    "neither claim nor credentials: its own namespace": (PLAIN, Backing(), ()),
    "credentials": (
        OWN,
        Backing(secret_types=HAS_KUBECONFIG),
        (managed(allowInsecureSkipTLSVerify=True),),
    ),
    "credentials with namespaces and cluster resources": (
        environment(
            unstableConfigurationFields={
                "kubernetesCredentials": credentials(namespaces=["shop", "jobs"], clusterResources=True)
            }
        ),
        Backing(secret_types=HAS_KUBECONFIG),
        (managed(allowInsecureSkipTLSVerify=True, namespaces=["shop", "jobs"], clusterResources=True),),
    ),
    "credentials whose Secret has another type are not copied": (
        OWN,
        Backing(secret_types={"kubeconfig": OPAQUE}),
        (managed(allowInsecureSkipTLSVerify=True),),
    ),
    "claim with a target": (
        CLAIMED,
        Backing("Bound", target(), {"space": ENVIRONMENT_SECRET}),
        (managed(credentialsSecret="space", namespaces=["spaces-1"]),),
    ),
    "claim with a target whose Secret has another type": (
        CLAIMED,
        Backing("Bound", target(), HAS_SPACE),
        (managed(credentialsSecret=COPY.name, namespaces=["spaces-1"]), COPY),
    ),
    "claim with a target without a namespace": (
        CLAIMED,
        Backing("Bound", target(""), {"space": ENVIRONMENT_SECRET}),
        (managed(credentialsSecret="space"),),
    ),
    "claim beside a cluster type, which are no credentials": (
        TYPE_ONLY,
        Backing("Bound", target(), {"space": ENVIRONMENT_SECRET}),
        (managed(credentialsSecret="space", namespaces=["spaces-1"]),),
    ),
    "claim that waits": (CLAIMED, Backing("Pending"), None),
    "claim that was never looked at": (CLAIMED, Backing(""), None),
    "claim that has lost its target": (CLAIMED, Backing("Lost"), None),
    "claim that does not exist": (CLAIMED, Backing(), None),
    "claim whose target is gone": (CLAIMED, Backing("Bound"), None),
    "claim and credentials both": (BOTH, Backing("Bound", target(), HAS_SPACE), None),
    "claim with a target whose Secret is never copied": (
        CLAIMED,
        Backing("Bound", target(), {"space": NEVER_COPIED[0]}),
        (managed(credentialsSecret="space", namespaces=["spaces-1"]),),
    ),
    "claim with a target whose Secret has the name of its copy": (
        CLAIMED,
        Backing("Bound", target(secret=COPY.name), {COPY.name: OPAQUE}),
        (managed(credentialsSecret=COPY.name, namespaces=["spaces-1"]),),
    ),
    "Secret of the target gone: no copy": (
        CLAIMED,
        Backing("Bound", target()),
        (managed(credentialsSecret="space", namespaces=["spaces-1"]),),
    ),
}


@pytest.mark.parametrize(("spec", "backing", "objects"), WANTED.values(), ids=WANTED)
def test_environment_when_it_is_backed_so_then_it_wants_these_objects(
    spec: EnvironmentSpec, backing: Backing, objects: tuple[ChildObject, ...] | None
) -> None:
    assert wanted(spec, backing) == objects


def missing(secret: str) -> str:
    return f"the secret {secret} referenced by the Environment resource was not found"


def not_copied(type_: str, why: str) -> tuple[EnvironmentSpec, Backing, tuple[str, str]]:
    message = f"the secret space of the DeploymentTarget is not copied: {why}"
    return CLAIMED, Backing("Bound", target(), {"space": type_}), ("SecretNotCopied", message)


PROBLEMS: dict[str, tuple[EnvironmentSpec, Backing, tuple[str, str] | None]] = {
    "its own namespace": (PLAIN, Backing(), None),
    "its own namespace, outside of the engine's cluster": (
        PLAIN,
        Backing(has_local_cluster=False),
        (
            "NoLocalCluster",
            "environments of this namespace need a cluster; set spec.configuration.target.deploymentTargetClaim or "
            "spec.unstableConfigurationFields.kubernetesCredentials",
        ),
    ),
    "credentials, outside of the engine's cluster": (
        OWN,
        Backing(secret_types=HAS_KUBECONFIG, has_local_cluster=False),
        None,
    ),
    "claim and credentials both": (
        BOTH,
        Backing("Bound", target(), HAS_SPACE),
        (
            "InvalidEnvironment",
            "Environment is invalid since it cannot have both DeploymentTargetClaim and credentials configuration set",
        ),
    ),
    "claim that does not exist": (
        CLAIMED,
        Backing(),
        (
            "DeploymentTargetClaimNotFound",
            "DeploymentTargetClaim not found while generating the desired Environment resource",
        ),
    ),
    "claim that waits": (CLAIMED, Backing("Pending"), None),
    "claim whose target is gone": (
        CLAIMED,
        Backing("Bound"),
        ("DeploymentTargetNotFound", "DeploymentTarget not found for DeploymentTargetClaim"),
    ),
    "Secret of the target gone": (CLAIMED, Backing("Bound", target()), ("SecretNotFound", missing("space"))),
    "Secret of the credentials missing": (OWN, Backing(), ("SecretNotFound", missing("kubeconfig"))),
    **{
        f"Secret of the target of type {each}": not_copied(
            each, f"it is of type {each}, which stands for an account of the cluster itself; name another Secret"
        )
        for each in NEVER_COPIED
    },
    "Secret of the target too large": not_copied(
        TOO_LARGE, "it is too large; leave nothing but the kubeconfig in it, or name another Secret"
    ),
    "Secret of the target with the name of its copy": (
        CLAIMED,
        Backing("Bound", target(secret=COPY.name), {COPY.name: OPAQUE}),
        (
            "SecretNotCopied",
            f"the secret {COPY.name} of the DeploymentTarget is not copied: the copy would have the same name; create "
            "it under another name, and name that one",
        ),
    ),
    "Secret of the target with the name of its copy, which needs none": (
        CLAIMED,
        Backing("Bound", target(secret=COPY.name), {COPY.name: ENVIRONMENT_SECRET}),
        None,
    ),
    "Secret of the credentials of a type that is never copied: its ManagedEnvironment says so": (
        OWN,
        Backing(secret_types={"kubeconfig": NEVER_COPIED[0]}),
        None,
    ),
    "all there": (CLAIMED, Backing("Bound", target(), HAS_SPACE), None),
}


@pytest.mark.parametrize(("spec", "backing", "problem"), PROBLEMS.values(), ids=PROBLEMS)
def test_environment_when_it_is_backed_so_then_its_user_is_told_in_the_documented_words(
    spec: EnvironmentSpec, backing: Backing, problem: tuple[str, str] | None
) -> None:
    assert decide("staging", spec, backing, ALONE).problem == (problem and Problem(*problem))


FAMILIES: dict[str, tuple[Family, bool, str]] = {
    "parent of others": (Family(children=("qa", "production")), False, ""),
    "parent of others, being deleted": (
        Family(children=("qa", "production")),
        True,
        "this environment is being deleted, and production, qa name it as parentEnvironment; name another parent there",
    ),
    "parent of none, being deleted": (ALONE, True, ""),
    "parent of many, being deleted": (
        Family(children=[f"e{number:02}" for number in range(12)]),
        True,
        "this environment is being deleted, and e00, e01, e02, e03, e04, e05, e06, e07, e08, e09 and 2 more name it as "
        "parentEnvironment; name another parent there",
    ),
    "its parent does not exist": (
        Family(missing_parent="nowhere"),
        False,
        "parentEnvironment 'nowhere' does not exist; create it, or name another one",
    ),
    "on a cycle": (
        Family(("staging", "qa", "staging")),
        False,
        "parentEnvironment leads back to this environment: staging -> qa -> staging; remove parentEnvironment from one "
        "of them",
    ),
    "on a long cycle": (
        Family((*(f"e{number:02}" for number in range(12)), "e00")),
        False,
        "parentEnvironment leads back to this environment: e00 -> e01 -> e02 -> e03 -> e04 -> e05 -> e06 -> e07 -> e08 "
        "-> e09 -> ... -> e00; remove parentEnvironment from one of them",
    ),
}


@pytest.mark.parametrize(("family", "deleting", "message"), FAMILIES.values(), ids=FAMILIES)
def test_environment_when_it_stands_so_among_others_then_that_is_told_and_it_wants_the_same(
    family: Family, deleting: bool, message: str
) -> None:
    backing = Backing(secret_types=HAS_KUBECONFIG)
    decision = decide("staging", OWN, backing, family, deleting=deleting)
    assert (decision.warning.message if decision.warning else "") == message
    assert decision.problem is None
    assert decision.children == wanted(OWN, backing)


def test_environment_when_it_is_on_a_cycle_and_its_claim_is_missing_then_the_claim_is_the_problem() -> None:
    decision = decide("staging", CLAIMED, Backing(), Family(("staging", "staging")))
    assert (decision.children, decision.problem) == (None, Problem.of(texts.CLAIM_NOT_FOUND))


CYCLES: dict[str, tuple[dict[str, str], dict[str, tuple[str, ...]]]] = {
    "no parents": ({}, {}),
    "a chain": ({"production": "staging", "staging": "development"}, {}),
    "a parent that does not exist": ({"staging": "nowhere"}, {}),
    "its own parent": ({"a": "a"}, {"a": ("a", "a")}),
    "two": ({"a": "b", "b": "a"}, {"a": ("a", "b", "a"), "b": ("b", "a", "b")}),
    "a way that leads into one": ({"x": "a", "a": "b", "b": "a"}, {"a": ("a", "b", "a"), "b": ("b", "a", "b")}),
    "two at once, and a chain": (
        {"a": "b", "b": "a", "c": "c", "e": "d"},
        {"a": ("a", "b", "a"), "b": ("b", "a", "b"), "c": ("c", "c")},
    ),
}


@pytest.mark.parametrize(("parents", "cycles"), CYCLES.values(), ids=CYCLES)
def test_parents_when_they_go_round_then_each_on_the_cycle_has_the_way_back_to_it(
    parents: dict[str, str], cycles: dict[str, tuple[str, ...]]
) -> None:
    assert parent_cycles(parents) == cycles


def test_parents_when_there_are_thousands_in_a_chain_then_each_is_looked_at_once() -> None:
    # Looks that grow with the square of it would take a quarter of an hour.
    assert parent_cycles({f"e{number}": f"e{number + 1}" for number in range(200_000)}) == {}


def shown(problem: Problem | None, previous: str = "{}", second: int = 0, **row: Any) -> str:
    known = refuse_resource(resource(ENVIRONMENT.kind, "staging", {}, **row), problem.refusal if problem else None)
    return environment_status(inputs(known, previous=previous, second=second))


def test_status_when_there_never_was_a_problem_then_it_has_no_conditions() -> None:
    assert conditions(shown(None)) == {}


def test_status_when_there_is_a_problem_then_both_conditions_say_so_with_one_message() -> None:
    message = texts.CLAIM_NOT_FOUND.message
    assert conditions(shown(Problem.of(texts.CLAIM_NOT_FOUND))) == {
        "ErrorOccurred": ("True", "ErrorOccurred", message),
        "Reconciled": ("False", "DeploymentTargetClaimNotFound", message),
    }


def test_status_when_the_problem_is_gone_then_both_are_turned_and_keep_their_reasons_with_resolved() -> None:
    resolved = shown(None, shown(Problem.of(texts.CLAIM_NOT_FOUND)), 1)
    assert conditions(resolved) == {
        "ErrorOccurred": ("False", "ErrorOccurredResolved", ""),
        "Reconciled": ("True", "DeploymentTargetClaimNotFoundResolved", ""),
    }
    assert shown(None, resolved, 2) == resolved


def test_status_when_another_problem_follows_then_it_takes_the_place_of_the_first() -> None:
    again = shown(Problem.of(texts.BOTH_CONFIGURED), shown(None, shown(Problem.of(texts.CLAIM_NOT_FOUND)), 1), 2)
    assert conditions(again)["Reconciled"][:2] == ("False", "InvalidEnvironment")


def test_status_when_its_change_was_held_back_then_that_is_shown_beside() -> None:
    assert "Throttled" in conditions(shown(None, held_back_ms=5000))

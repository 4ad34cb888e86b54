"""Which GitOpsDeployments follow from a SnapshotEnvironmentBinding, and what its user is told."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

import pytest

from services.common.addresses import AddressPolicy
from services.common.messages import ChildKind
from services.kinds.deployment_target.model import DeploymentTargetSpec
from services.kinds.environment.known import KnownEnvironment
from services.kinds.environment.model import EnvironmentSpec
from services.kinds.environment.rules import Backing
from services.kinds.shared.child_objects import ChildObject
from services.kinds.shared.reconciled import Problem
from services.kinds.shared.text import MAX_COMPONENTS, MAX_LABEL, MAX_NAME
from services.kinds.snapshot_environment_binding.model import BindingSpec, BindingStatus
from services.kinds.snapshot_environment_binding.rules import (
    Binding,
    Decision,
    Rival,
    decide,
    deployment_name,
    older_bindings,
)
from tests.unit.kinds.given import id_of

ADDRESSES = AddressPolicy()
REPOSITORY = "https://git.example.com/gitops"


def component(name: str = "cart", **repository: Any) -> dict[str, Any]:
    content = {"url": REPOSITORY, "branch": "main", "path": f"components/{name}/overlays/staging", "commitID": "c1"}
    return {"name": name, "gitopsRepository": content | repository}


def environment(**spec: Any) -> KnownEnvironment:
    whole = {"displayName": "Staging", "deploymentStrategy": "Manual"} | spec
    return KnownEnvironment.of(EnvironmentSpec.model_validate(whole))


def with_credentials(namespace: str = "shop") -> KnownEnvironment:
    credentials = {
        "targetNamespace": namespace,
        "apiURL": "https://api.example.com",
        "clusterCredentialsSecret": "kubeconfig",
        "allowInsecureSkipTLSVerify": False,
    }
    return environment(unstableConfigurationFields={"kubernetesCredentials": credentials})


CLAIM = {"target": {"deploymentTargetClaim": {"claimName": "staging"}}}
CLAIMING = environment(configuration=CLAIM)
BOTH = replace(CLAIMING, target_namespace=with_credentials().target_namespace)


def target(namespace: str) -> DeploymentTargetSpec:
    credentials = {
        "defaultNamespace": namespace,
        "apiURL": "https://api.example.com",
        "clusterCredentialsSecret": "space",
        "allowInsecureSkipTLSVerify": False,
    }
    return DeploymentTargetSpec.model_validate(
        {"deploymentTargetClassName": "space", "kubernetesCredentials": credentials}
    )


def binding(
    *components: dict[str, Any],
    names: tuple[str, ...] | None = None,
    repository: tuple[str, ...] = (),
    application: str = "shop",
    **changes: Any,
) -> Binding:
    """A binding with these component statuses; ``names`` are those of its spec, ``repository`` its conditions."""
    wanted = names if names is not None else tuple(dict.fromkeys(each["name"] for each in components))
    spec = {"application": application, "environment": "staging", "snapshot": "one"}
    conditions = [{"type": "GitOpsRepository", "status": status} for status in repository]
    reported = {"components": list(components), "gitopsRepoConditions": conditions}
    given: dict[str, Any] = {
        "name": "shop-staging",
        "spec": BindingSpec.model_validate(spec | {"components": [{"name": name[:MAX_LABEL]} for name in wanted]}),
        "reported": BindingStatus.model_validate(reported),
        "environment": environment(),
    }
    return Binding(**(given | changes))


OWN_NAMESPACE = {"environment": "", "namespace": ""}


def child(
    name: str = "cart", labels: dict[str, str] | None = None, destination: dict[str, str] = OWN_NAMESPACE
) -> ChildObject:
    """With every field, so that drift in any is undone."""
    source = {"repoURL": REPOSITORY, "path": f"components/{name}/overlays/staging", "targetRevision": "main"}
    own = {"application": "shop", "component": name, "environment": "staging"}
    return ChildObject(
        ChildKind.DEPLOYMENT,
        f"shop-staging-shop-staging-{name}",
        {"source": source, "destination": destination, "syncPolicy": {"syncOptions": []}, "type": "automated"},
        (labels or {}) | {f"appstudio.openshift.io/{what}": value for what, value in own.items()},
    )


ON_CLUSTER = {"environment": "managed-environment-staging", "namespace": "shop"}
INHERITED = {"appstudio.openshift.io/owner": "team-a", "x.appstudio.openshift.io": "y"}
OTHER_NAMES = {"appstudio.openshift.io/component": "other", "team": "a"}

WANTED: dict[str, tuple[Binding, dict[str, ChildObject]]] = {
    "a component in its own namespace": (binding(component()), {"cart": child()}),
    "two components": (
        binding(component("cart"), component("basket")),
        {"basket": child("basket"), "cart": child("cart")},
    ),
    "an environment with credentials": (
        binding(component(), environment=with_credentials()),
        {"cart": child(destination=ON_CLUSTER)},
    ),
    "an environment with a claim": (
        binding(component(), environment=CLAIMING, backing=Backing("Bound", target("spaces-1"))),
        {"cart": child(destination={"environment": "managed-environment-staging", "namespace": "spaces-1"})},
    ),
    "a target without a namespace": (
        binding(component(), environment=CLAIMING, backing=Backing("Bound", target(""))),
        {"cart": child(destination=OWN_NAMESPACE | {"environment": "managed-environment-staging"})},
    ),
    "labels of AppStudio are passed on": (binding(component(), labels=INHERITED), {"cart": child(labels=INHERITED)}),
    "labels that say who it is, and foreign ones, are not": (
        binding(component(), labels=OTHER_NAMES),
        {"cart": child()},
    ),
    "a repository that could be written at last": (
        binding(component(), repository=("False", "True")),
        {"cart": child()},
    ),
    "no components at all": (binding(), {}),
    "a component that the spec does not name any more": (
        binding(component("cart"), component("basket"), names=("cart",)),
        {"cart": child("cart")},
    ),
    "components of which the spec names none": (binding(component(), names=()), {}),
    "more components than a binding may have, of which the spec names one": (
        binding(*(component(f"c{number}") for number in range(MAX_COMPONENTS + 1)), names=("c7",)),
        {"c7": child("c7")},
    ),
    "a component twice, and with a name that is no label, that the spec does not name": (
        binding(component("cart"), component("../cart"), component("../cart"), names=("cart",)),
        {"cart": child("cart")},
    ),
}


@pytest.mark.parametrize(("given", "deployments"), WANTED.values(), ids=WANTED)
def test_binding_when_nothing_is_wrong_then_each_component_has_its_deployment(
    given: Binding, deployments: dict[str, ChildObject]
) -> None:
    assert decide(given, ADDRESSES) == Decision(deployments)


GENERATING = "ErrorGeneratingGitOpsDeployment"
WAITING = (
    "SnapshotEventBinding Component status is required to generate GitOps deployment, waiting for the Application "
    "Service controller to finish reconciling binding 'shop-staging'"
)
NO_LABEL = "must be a DNS-1123 label, such as"

PROBLEMS: dict[str, tuple[Binding, dict[str, ChildObject] | None, str, str]] = {
    "no component status yet: its deployments go": (binding(names=("cart",)), {}, "WaitingForComponentStatus", WAITING),
    "status of one component only": (
        binding(component("cart"), names=("cart", "basket", "api")),
        {"cart": child("cart")},
        "WaitingForComponentStatus",
        f"{WAITING}: nothing is known of api, basket",
    ),
    "repository not ready: its deployments stay": (
        binding(component(), repository=("True", "False")),
        None,
        "GitOpsRepoNotReady",
        "Cannot Reconcile Binding 'shop-staging', since GitOps Repo Conditions status is false.",
    ),
    "repository not ready and no status": (
        binding(names=("cart",), repository=("False",)),
        None,
        "GitOpsRepoNotReady",
        "Cannot Reconcile Binding 'shop-staging', since GitOps Repo Conditions status is false.",
    ),
    "a component twice": (
        binding(component("cart"), component("cart")),
        None,
        "DuplicateComponents",
        "duplicate component keys found in status field in cart",
    ),
    "an environment that does not exist": (
        binding(component(), environment=None),
        None,
        "EnvironmentNotFound",
        "Environment 'staging' does not exist; create it",
    ),
    "an environment with claim and credentials": (
        binding(component(), environment=BOTH),
        None,
        GENERATING,
        "Environment 'staging' is not usable: read its conditions",
    ),
    "an environment with credentials and no namespace": (
        binding(component(), environment=with_credentials("")),
        None,
        GENERATING,
        "Environment is missing a TargetNamespace field",
    ),
    "a claim that does not exist": (
        binding(component(), environment=CLAIMING),
        None,
        GENERATING,
        "DeploymentTargetClaim referenced by Environment does not exist.",
    ),
    "a claim without a target": (
        binding(component(), environment=CLAIMING, backing=Backing("Pending")),
        None,
        GENERATING,
        "unable to locate DeploymentTarget the references DeploymentTargetClaim",
    ),
    "an older binding of the same": (
        binding(component(), older="first"),
        {},
        "DuplicateBinding",
        "SnapshotEnvironmentBinding 'first' is older and binds application 'shop' to environment 'staging' already; "
        "delete one of the two",
    ),
    "a component whose name is too long for a label, as no spec has one": (
        binding(component("c" * (MAX_LABEL + 1))),
        {},
        "WaitingForComponentStatus",
        WAITING,
    ),
    "status of a component that the spec does not name, and of none that it does: its deployment goes": (
        binding(component("cart"), names=("basket",)),
        {},
        "WaitingForComponentStatus",
        WAITING,
    ),
    "a component whose name leads elsewhere": (
        binding(component("../cart")),
        None,
        GENERATING,
        f"unable to generate the GitOpsDeployment of component '../cart': the name of its component {NO_LABEL} "
        "'my-component'; correct it",
    ),
    "an application whose name is no label": (
        binding(component(), application="Shop!"),
        None,
        GENERATING,
        f"unable to generate the GitOpsDeployment of component 'cart': the name of its application {NO_LABEL} "
        "'my-application'; correct it",
    ),
    "a path that leads out of the repository": (
        binding(component(path="../secrets")),
        None,
        GENERATING,
        "unable to generate the GitOpsDeployment of component 'cart': spec.source.path must be a folder inside the "
        "repository: it cannot begin with '/', contain '\\' or leave the repository by '..'",
    ),
    "a branch that is an option": (
        binding(component(branch="--upload-pack=x")),
        None,
        GENERATING,
        "unable to generate the GitOpsDeployment of component 'cart': spec.source.targetRevision: a revision cannot "
        "begin with '-'",
    ),
}


@pytest.mark.parametrize(("given", "deployments", "reason", "message"), PROBLEMS.values(), ids=PROBLEMS)
def test_binding_when_something_is_wrong_then_its_user_is_told_and_what_it_wants_is_known_or_stays(
    given: Binding, deployments: dict[str, ChildObject] | None, reason: str, message: str
) -> None:
    assert decide(given, ADDRESSES) == Decision(deployments, Problem(reason, message))


@pytest.mark.parametrize("url", ["https://me:pw@git.example.com/a", "https://g/".ljust(600, "a"), "", "file:///etc"])
def test_binding_when_the_api_server_would_refuse_a_repository_then_nothing_is_asked_of_it(url: str) -> None:
    decision = decide(binding(component(url=url)), ADDRESSES)
    assert decision.deployments is None
    assert decision.problem is not None
    assert decision.problem.reason == GENERATING
    assert "pw" not in decision.problem.message


NAMES: dict[str, tuple[int, str]] = {
    "as it is": (10, "{binding}-shop-staging-cart"),
    "just short enough": (250 - len("-shop-staging-cart"), "{binding}-shop-staging-cart"),
    "too long with application and environment": (251 - len("-shop-staging-cart"), "{binding}-cart"),
    "just short enough without them": (250 - len("-cart"), "{binding}-cart"),
    "too long without them, too": (251 - len("-cart"), "{cut}-{digest}"),
    "the longest that there is": (MAX_NAME, "{cut}-{digest}"),
}


@pytest.mark.parametrize(("length", "form"), NAMES.values(), ids=NAMES)
def test_deployment_name_when_a_name_is_so_long_then_it_has_the_documented_form(length: int, form: str) -> None:
    name = "b" * length
    digest = hashlib.sha256(f"{name}-shop-staging-cart".encode()).hexdigest()
    found = deployment_name(name, "shop", "staging", "cart")
    assert found == form.format(binding=name, cut=name[:180], digest=digest)
    assert len(found) <= 250


def test_deployment_name_when_it_is_cut_behind_a_dot_then_the_api_server_takes_it() -> None:
    assert deployment_name(f"{'b' * 179}.{'b' * 73}", "shop", "staging", "cart").startswith(f"{'b' * 179}-")


def test_deployment_name_when_two_components_share_its_beginning_then_they_do_not_share_it() -> None:
    first, second = (deployment_name("b" * MAX_NAME, "shop", "staging", name) for name in ("cart", "basket"))
    assert first != second


def rival(name: str, created_at: int, application: str = "shop", environment: str = "staging") -> Rival:
    return Rival(id_of(name), name, created_at, application, environment)


RIVALS: dict[str, tuple[list[Rival], dict[str, str]]] = {
    "none": ([], {}),
    "one": ([rival("a", 1)], {}),
    "the older wins, whatever comes first": ([rival("b", 2), rival("a", 1)], {"b": "a"}),
    "of the same second the first by name": ([rival("b", 1), rival("a", 1)], {"b": "a"}),
    "three": ([rival("c", 3), rival("b", 2), rival("a", 1)], {"b": "a", "c": "a"}),
    "another environment": ([rival("a", 1), rival("b", 2, environment="production")], {}),
    "another application": ([rival("a", 1), rival("b", 2, application="blog")], {}),
}


@pytest.mark.parametrize(("bindings", "others"), RIVALS.values(), ids=RIVALS)
def test_bindings_when_several_bind_the_same_then_the_oldest_is_in_force(
    bindings: list[Rival], others: dict[str, str]
) -> None:
    assert older_bindings(bindings) == {id_of(name): older for name, older in others.items()}

"""What the API server accepts and refuses of the kinds of appstudio.redhat.com, as tables of named cases."""

from __future__ import annotations

from typing import Any

from services.common.urls.repository_url import ASCII_MESSAGE
from services.kinds.deployment_target.model import DEPLOYMENT_TARGET
from services.kinds.deployment_target_claim.model import DEPLOYMENT_TARGET_CLAIM
from services.kinds.environment.model import ENVIRONMENT, INGRESS_DOMAIN_MESSAGE, INGRESS_DOMAIN_MISSING, MAX_TAGS
from services.kinds.promotion_run.model import ONE_PROMOTION, PROMOTION_RUN
from services.kinds.shared.cluster_credentials import HTTPS_MESSAGE
from services.kinds.shared.text import (
    MAX_COMPONENTS,
    MAX_DISPLAY_NAME,
    MAX_IMAGE,
    MAX_LABEL,
    MAX_NAME,
    MAX_NAMESPACES,
    MAX_URL,
    MAX_VALUE,
    MAX_VARIABLES,
)
from services.kinds.shared.url_rules import FRAGMENT_MESSAGE, USER_INFO_MESSAGE
from services.kinds.snapshot.model import SNAPSHOT
from services.kinds.snapshot_environment_binding.model import BINDING, MAX_QUANTITY, MAX_REPLICAS, MAX_RESOURCES
from tests.component.api.cases import MISSING, NO_URL, TOO_LONG, TOO_MANY, WRONG_TYPE, Case

NO_CHOICE = "supported values"
OUT_OF_RANGE = "should be"

IMAGE = "quay.io/example/cart@sha256:" + "0" * 64
CREDENTIALS: dict[str, Any] = {
    "targetNamespace": "shop",
    "apiURL": "https://api.example.com:6443",
    "clusterCredentialsSecret": "kubeconfig",
    "allowInsecureSkipTLSVerify": False,
}
VARIABLE = {"name": "LOG_LEVEL", "value": "info"}


def _environment(name: str, message: str = "", **changes: Any) -> Case:
    return Case(f"environment-{name}", ENVIRONMENT, changes, message)


def _cluster(name: str, message: str = "", type_: str | None = None, **changes: Any) -> Case:
    """An environment with credentials; None leaves one of them out."""
    credentials = {key: value for key, value in (CREDENTIALS | changes).items() if value is not None}
    unstable = {"kubernetesCredentials": credentials} | ({"clusterType": type_} if type_ else {})
    return _environment(f"cluster-{name}", message, unstableConfigurationFields=unstable)


def _configured(name: str, message: str = "", **configuration: Any) -> Case:
    return _environment(name, message, configuration=configuration)


def _snapshot(name: str, message: str = "", **changes: Any) -> Case:
    return Case(f"snapshot-{name}", SNAPSHOT, changes, message)


def _component(name: str, message: str = "", /, **changes: Any) -> Case:
    """A snapshot of one component; None leaves a field out."""
    component = {"name": "cart", "containerImage": IMAGE} | changes
    kept = {key: value for key, value in component.items() if value is not None}
    return _snapshot(f"component-{name}", message, components=[kept])


def _binding(name: str, message: str = "", **changes: Any) -> Case:
    return Case(f"binding-{name}", BINDING, changes, message)


def _bound(name: str, message: str = "", **configuration: Any) -> Case:
    """A binding of one component."""
    return _binding(f"component-{name}", message, components=[{"name": "cart", "configuration": configuration}])


def _run(name: str, message: str = "", **changes: Any) -> Case:
    return Case(f"promotion-{name}", PROMOTION_RUN, changes, message)


def _claim(name: str, message: str = "", **changes: Any) -> Case:
    return Case(f"claim-{name}", DEPLOYMENT_TARGET_CLAIM, changes, message)


def _target(name: str, message: str = "", **changes: Any) -> Case:
    return Case(f"target-{name}", DEPLOYMENT_TARGET, changes, message)


ENVIRONMENTS = (
    _environment("least"),
    _environment("everything-for-people", type="Non-POC", tags=["eu", "paid"], parentEnvironment="development"),
    _environment("strategy-automated", deploymentStrategy="AppStudioAutomated"),
    _environment("tags-at-the-limit", tags=["t" * MAX_LABEL] * MAX_TAGS),
    _environment("strategy-unknown", NO_CHOICE, deploymentStrategy="Sometimes"),
    _environment("strategy-in-capitals", NO_CHOICE, deploymentStrategy="MANUAL"),
    _environment("strategy-missing", MISSING, deploymentStrategy=None),
    _environment("type-unknown", NO_CHOICE, type="poc"),
    _environment("name-shown-missing", MISSING, displayName=None),
    _environment("name-shown-a-number", WRONG_TYPE, displayName=1),
    _environment("name-shown-oversized", TOO_LONG, displayName="d" * (MAX_DISPLAY_NAME + 1)),
    _environment("parent-oversized", TOO_LONG, parentEnvironment="p" * (MAX_LABEL + 1)),
    _environment("tags-too-many", TOO_MANY, tags=["t"] * (MAX_TAGS + 1)),
    _environment("tag-oversized", TOO_LONG, tags=["t" * (MAX_LABEL + 1)]),
    _configured("claim", target={"deploymentTargetClaim": {"claimName": "staging"}}),
    _configured("claim-without-a-name", MISSING, target={"deploymentTargetClaim": {}}),
    _configured("target-without-a-claim", MISSING, target={}),
    _configured("claim-oversized", TOO_LONG, target={"deploymentTargetClaim": {"claimName": "c" * (MAX_NAME + 1)}}),
    _configured("variables-at-the-limit", env=[VARIABLE] * MAX_VARIABLES),
    _configured("variables-too-many", TOO_MANY, env=[VARIABLE] * (MAX_VARIABLES + 1)),
    _configured("variable-without-a-value", MISSING, env=[{"name": "LOG_LEVEL"}]),
    _configured("variable-oversized", TOO_LONG, env=[VARIABLE | {"value": "v" * (MAX_VALUE + 1)}]),
    _environment("cluster-type-alone", unstableConfigurationFields={"clusterType": "OpenShift"}),
    _environment(
        "kubernetes-without-credentials",
        INGRESS_DOMAIN_MISSING,
        unstableConfigurationFields={"clusterType": "Kubernetes"},
    ),
    _cluster("least"),
    _cluster("openshift-without-ingress", type_="OpenShift"),
    _cluster("kubernetes-with-ingress", type_="Kubernetes", ingressDomain="apps.example.com"),
    _cluster("namespaces-at-the-limit", namespaces=["n"] * MAX_NAMESPACES, clusterResources=True),
    _cluster("type-unknown", NO_CHOICE, type_="K3s"),
    _cluster("kubernetes-without-ingress", INGRESS_DOMAIN_MISSING, type_="Kubernetes"),
    _cluster("kubernetes-with-empty-ingress", INGRESS_DOMAIN_MISSING, type_="Kubernetes", ingressDomain=""),
    _cluster("ingress-in-capitals", INGRESS_DOMAIN_MESSAGE, ingressDomain="Apps.example.com"),
    _cluster("ingress-a-url", INGRESS_DOMAIN_MESSAGE, ingressDomain="https://apps.example.com"),
    _cluster("ingress-with-an-empty-label", INGRESS_DOMAIN_MESSAGE, ingressDomain="apps..example.com"),
    _cluster("ingress-with-any-character-for-a-dot", INGRESS_DOMAIN_MESSAGE, ingressDomain="apps_example.com"),
    _cluster("ingress-oversized", TOO_LONG, ingressDomain="a" * (MAX_NAME + 1)),
    _cluster("http", HTTPS_MESSAGE, apiURL="http://api.example.com"),
    _cluster("no-url", NO_URL, apiURL="api.example.com"),
    _cluster("user", USER_INFO_MESSAGE, apiURL="https://me:pw@api.example.com"),
    _cluster("fragment", FRAGMENT_MESSAGE, apiURL="https://api.example.com/#"),
    _cluster("invisible-character", ASCII_MESSAGE, apiURL="https://api.example\u200b.com"),
    _cluster("url-oversized", TOO_LONG, apiURL="https://api.example.com/".ljust(MAX_URL + 1, "a")),
    _cluster("url-missing", MISSING, apiURL=None),
    _cluster("secret-missing", MISSING, clusterCredentialsSecret=None),
    _cluster("namespace-missing", MISSING, targetNamespace=None),
    _cluster("namespace-oversized", TOO_LONG, targetNamespace="n" * (MAX_LABEL + 1)),
    _cluster("tls-choice-missing", MISSING, allowInsecureSkipTLSVerify=None),
    _cluster("namespaces-too-many", TOO_MANY, namespaces=["n"] * (MAX_NAMESPACES + 1)),
)

SNAPSHOTS = (
    _snapshot("least"),
    _snapshot("without-components", components=[]),
    _snapshot("at-the-limit", components=[{"name": "c", "containerImage": "i" * 512}] * MAX_COMPONENTS),
    _snapshot("artifacts-an-object", artifacts={"unstableFields": {"any": [1, {"thing": None}]}}),
    _snapshot("artifacts-a-list", artifacts={"unstableFields": ["any", 1.5]}),
    _snapshot("application-missing", MISSING, application=None),
    _snapshot("application-oversized", TOO_LONG, application="a" * (MAX_LABEL + 1)),
    _snapshot(
        "components-too-many", TOO_MANY, components=[{"name": "c", "containerImage": "i"}] * (MAX_COMPONENTS + 1)
    ),
    _snapshot("description-oversized", TOO_LONG, displayDescription="d" * 1025),
    _component("least"),
    _component("source", source={"git": {"url": "https://git.example.com/a", "revision": "main", "context": "cart"}}),
    _component("source-without-a-url", MISSING, source={"git": {"revision": "main"}}),
    _component("source-oversized", TOO_LONG, source={"git": {"url": "u" * (MAX_URL + 1)}}),
    _component("image-missing", MISSING, containerImage=None),
    _component("image-oversized", TOO_LONG, containerImage="i" * (MAX_IMAGE + 1)),
    _component("name-oversized", TOO_LONG, name="n" * (MAX_LABEL + 1)),
)

BINDINGS = (
    _binding("least"),
    _binding("components-at-the-limit", components=[{"name": "c"}] * MAX_COMPONENTS),
    _bound("nothing-said"),
    _bound("replicas-none", replicas=0),
    _bound("replicas-at-the-limit", replicas=MAX_REPLICAS),
    _bound("quantities", resources={"limits": {"cpu": 2, "memory": "512Mi"}, "requests": {"cpu": "100m"}}),
    _bound("variables-at-the-limit", env=[VARIABLE] * MAX_VARIABLES),
    _binding("components-missing", MISSING, components=None),
    _binding("snapshot-missing", MISSING, snapshot=None),
    _binding("snapshot-oversized", TOO_LONG, snapshot="s" * (MAX_NAME + 1)),
    _binding("environment-missing", MISSING, environment=None),
    _binding("environment-oversized", TOO_LONG, environment="e" * (MAX_LABEL + 1)),
    _binding("application-missing", MISSING, application=None),
    _binding("components-too-many", TOO_MANY, components=[{"name": "c"}] * (MAX_COMPONENTS + 1)),
    _binding("component-name-missing", MISSING, components=[{}]),
    _binding("component-name-oversized", TOO_LONG, components=[{"name": "c" * (MAX_LABEL + 1)}]),
    _bound("replicas-negative", OUT_OF_RANGE, replicas=-1),
    _bound("replicas-too-many", OUT_OF_RANGE, replicas=MAX_REPLICAS + 1),
    _bound("replicas-a-string", WRONG_TYPE, replicas="two"),
    _bound("quantity-a-list", WRONG_TYPE, resources={"limits": {"cpu": []}}),
    _bound("quantity-oversized", TOO_LONG, resources={"limits": {"cpu": "1" * (MAX_QUANTITY + 1)}}),
    _bound("resources-too-many", TOO_MANY, resources={"limits": {f"r{n}": 1 for n in range(MAX_RESOURCES + 1)}}),
    _bound("variables-too-many", TOO_MANY, env=[VARIABLE] * (MAX_VARIABLES + 1)),
)

PROMOTIONS = (
    _run("manual"),
    _run("automated", manualPromotion=None, automatedPromotion={"initialEnvironment": "development"}),
    _run("manual-with-an-empty-other", automatedPromotion={"initialEnvironment": ""}),
    _run("neither", ONE_PROMOTION, manualPromotion=None),
    _run("both", ONE_PROMOTION, automatedPromotion={"initialEnvironment": "development"}),
    _run("environment-empty", ONE_PROMOTION, manualPromotion={"targetEnvironment": ""}),
    _run("environment-missing", MISSING, manualPromotion={"targetEnvironment": None}),
    _run("environment-oversized", TOO_LONG, manualPromotion={"targetEnvironment": "e" * (MAX_LABEL + 1)}),
    _run("snapshot-missing", MISSING, snapshot=None),
    _run("snapshot-oversized", TOO_LONG, snapshot="s" * (MAX_NAME + 1)),
    _run("application-missing", MISSING, application=None),
    _run("application-oversized", TOO_LONG, application="a" * (MAX_LABEL + 1)),
)

TARGETS = (
    _claim("least"),
    _claim("target", targetName="production"),
    _claim("class-missing", MISSING, deploymentTargetClassName=None),
    _claim("class-oversized", TOO_LONG, deploymentTargetClassName="c" * (MAX_NAME + 1)),
    _claim("target-oversized", TOO_LONG, targetName="t" * (MAX_NAME + 1)),
    _claim("target-a-map", WRONG_TYPE, targetName={"name": "production"}),
    _target("least"),
    _target("claimed", claimRef="staging"),
    _target("class-missing", MISSING, deploymentTargetClassName=None),
    _target("credentials-missing", MISSING, kubernetesCredentials=None),
    _target("http", HTTPS_MESSAGE, kubernetesCredentials={"apiURL": "http://api.example.com"}),
    _target("namespace-missing", MISSING, kubernetesCredentials={"defaultNamespace": None}),
    _target("namespace-oversized", TOO_LONG, kubernetesCredentials={"defaultNamespace": "n" * (MAX_LABEL + 1)}),
    _target("secret-oversized", TOO_LONG, kubernetesCredentials={"clusterCredentialsSecret": "s" * (MAX_NAME + 1)}),
    _target("tls-choice-missing", MISSING, kubernetesCredentials={"allowInsecureSkipTLSVerify": None}),
    _target("claim-oversized", TOO_LONG, claimRef="c" * (MAX_NAME + 1)),
)

APPSTUDIO_CASES = ENVIRONMENTS + SNAPSHOTS + BINDINGS + PROMOTIONS + TARGETS

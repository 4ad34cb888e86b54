"""What the API server accepts and refuses, as tables of named cases."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from services.common.kubernetes.builtin_kinds import ApiResource
from services.common.urls.repository_url import ASCII_MESSAGE, MAX_REPOSITORY, PASSWORD_MESSAGE
from services.kinds.deployment_target.model import DEPLOYMENT_TARGET
from services.kinds.deployment_target_claim.model import DEPLOYMENT_TARGET_CLAIM
from services.kinds.environment.model import ENVIRONMENT
from services.kinds.gitops_deployment.model import (
    ENVIRONMENT_MESSAGE,
    GITOPS_DEPLOYMENT,
    SYNC_OPTION_MESSAGE,
    TYPE_MESSAGE,
)
from services.kinds.managed_environment.model import API_URL_MESSAGE, MANAGED_ENVIRONMENT
from services.kinds.promotion_run.model import PROMOTION_RUN
from services.kinds.repository_credential.model import REPOSITORY_CREDENTIAL, REPOSITORY_MESSAGE, USER_MESSAGE
from services.kinds.shared.text import (
    MAX_LABEL,
    MAX_NAME,
    MAX_NAMESPACES,
    MAX_PATH,
    MAX_REVISION,
    MAX_SYNC_OPTIONS,
    MAX_URL,
)
from services.kinds.shared.url_rules import FRAGMENT_MESSAGE, REVISION_MESSAGE, USER_INFO_MESSAGE
from services.kinds.snapshot.model import SNAPSHOT
from services.kinds.snapshot_environment_binding.model import BINDING
from services.kinds.sync_run.model import SYNC_RUN

NO_URL = "must be an absolute URL"
TOO_LONG = "may not be more than"
TOO_MANY = "must have at most"
WRONG_TYPE = "must be of type"
MISSING = "Required value"

Spec = dict[str, Any]

GOOD: dict[ApiResource, Spec] = {
    GITOPS_DEPLOYMENT: {"source": {"repoURL": "https://git.example.com/a.git", "path": "apps"}, "type": "automated"},
    MANAGED_ENVIRONMENT: {
        "apiURL": "https://api.example.com:6443",
        "credentialsSecret": "production",
        "allowInsecureSkipTLSVerify": False,
    },
    REPOSITORY_CREDENTIAL: {"repository": "https://git.example.com/a.git", "secret": "login"},
    SYNC_RUN: {"gitopsDeploymentName": "web"},
    ENVIRONMENT: {"displayName": "Staging", "deploymentStrategy": "Manual"},
    SNAPSHOT: {"application": "shop"},
    BINDING: {"application": "shop", "environment": "staging", "snapshot": "one", "components": []},
    PROMOTION_RUN: {
        "application": "shop",
        "snapshot": "one",
        "manualPromotion": {"targetEnvironment": "staging"},
    },
    DEPLOYMENT_TARGET_CLAIM: {"deploymentTargetClassName": "isolation-level-namespace"},
    DEPLOYMENT_TARGET: {
        "deploymentTargetClassName": "own",
        "kubernetesCredentials": {
            "defaultNamespace": "shop",
            "apiURL": "https://api.example.com:6443",
            "clusterCredentialsSecret": "kubeconfig",
            "allowInsecureSkipTLSVerify": False,
        },
    },
}
"""The least that each kind with a namespace needs."""


@dataclass(frozen=True)
class Case:
    """A spec, as ``changes`` to a good one (None removes a field), and the message that refuses it, if any does."""

    name: str
    resource: ApiResource
    changes: Spec
    message: str = ""

    @property
    def spec(self) -> Spec:
        return merged(GOOD[self.resource], self.changes)


class Null:
    """Stands for a JSON null in ``changes``, where None means that a field is left out."""


NULL: Any = Null()


def merged(spec: Spec, changes: Spec) -> Spec:
    """``spec`` with ``changes``."""
    result = deepcopy(spec)
    for name, value in changes.items():
        if value is None:
            del result[name]
        elif isinstance(value, dict) and isinstance(result.get(name), dict):
            result[name] = merged(result[name], value)
        else:
            result[name] = None if value is NULL else value
    return result


def _deployment(name: str, message: str = "", **changes: Any) -> Case:
    return Case(f"deployment-{name}", GITOPS_DEPLOYMENT, changes, message)


def _environment(name: str, message: str = "", **changes: Any) -> Case:
    return Case(f"environment-{name}", MANAGED_ENVIRONMENT, changes, message)


def _credential(name: str, message: str = "", **changes: Any) -> Case:
    return Case(f"credential-{name}", REPOSITORY_CREDENTIAL, changes, message)


def _run(name: str, message: str = "", **changes: Any) -> Case:
    return Case(f"run-{name}", SYNC_RUN, changes, message)


DEPLOYMENTS = (
    _deployment("least"),
    _deployment("type-in-capitals", type="MANUAL"),
    _deployment("sync-options", syncPolicy={"syncOptions": ["CreateNamespace=true", "CreateNamespace=false"]}),
    _deployment("environment-without-namespace", destination={"environment": "production"}),
    _deployment("environment-and-namespace", destination={"environment": "production", "namespace": "web"}),
    _deployment("empty-namespace", destination={"namespace": ""}),
    _deployment("path-empty-because-a-condition-tells-of-it", source={"path": ""}),
    _deployment("path-root-because-a-condition-tells-of-it", source={"path": "/"}),
    _deployment("path-not-ascii", source={"path": "größe"}),
    _deployment("repository-of-ssh", source={"repoURL": "ssh://git@git.example.com:22/a.git"}),
    _deployment("repository-like-scp", source={"repoURL": "git@git.example.com:a/b.git"}),
    _deployment("repository-with-a-port-and-an-at", source={"repoURL": "https://git.example.com:443/a@b"}),
    _deployment("unknown-type", TYPE_MESSAGE, type="sometimes"),
    _deployment("empty-type", TYPE_MESSAGE, type=""),
    _deployment("type-with-newline", TYPE_MESSAGE, type="manual\n"),
    _deployment("type-in-cyrillic", TYPE_MESSAGE, type="mаnuаl"),  # noqa: RUF001 - that is the point
    _deployment("type-full-width", TYPE_MESSAGE, type="ｍanual"),  # noqa: RUF001 - that is the point
    _deployment("type-missing", MISSING, type=None),
    _deployment("type-null", MISSING, type=NULL),
    _deployment("type-a-number", WRONG_TYPE, type=1),
    _deployment("type-oversized", TOO_LONG, type="manual" * 9),
    _deployment("source-missing", MISSING, source=None),
    _deployment("source-a-list", WRONG_TYPE, source=[]),
    _deployment("unknown-sync-option", SYNC_OPTION_MESSAGE, syncPolicy={"syncOptions": ["Replace=true"]}),
    _deployment("sync-option-cased", SYNC_OPTION_MESSAGE, syncPolicy={"syncOptions": ["createNamespace=true"]}),
    _deployment(
        "too-many-sync-options", TOO_MANY, syncPolicy={"syncOptions": ["CreateNamespace=true"] * (MAX_SYNC_OPTIONS + 1)}
    ),
    _deployment("sync-options-a-string", WRONG_TYPE, syncPolicy={"syncOptions": "CreateNamespace=true"}),
    _deployment("namespace-without-environment", ENVIRONMENT_MESSAGE, destination={"namespace": "kube-system"}),
    _deployment(
        "namespace-with-empty-environment", ENVIRONMENT_MESSAGE, destination={"namespace": "web", "environment": ""}
    ),
    _deployment("namespace-oversized", TOO_LONG, destination={"environment": "e", "namespace": "n" * (MAX_LABEL + 1)}),
    _deployment(
        "repository-with-a-password", PASSWORD_MESSAGE, source={"repoURL": "https://me:pw@git.example.com/a.git"}
    ),
    _deployment("repository-with-a-token", PASSWORD_MESSAGE, source={"repoURL": "https://:pw@git.example.com/a.git"}),
    _deployment("repository-in-cyrillic", ASCII_MESSAGE, source={"repoURL": "https://gіt.example.com/a"}),  # noqa: RUF001
    _deployment("repository-with-a-newline", ASCII_MESSAGE, source={"repoURL": "https://git.example.com/a\nb"}),
    _deployment("repository-oversized", TOO_LONG, source={"repoURL": "https://g/".ljust(MAX_REPOSITORY + 1, "a")}),
    _deployment("path-oversized", TOO_LONG, source={"path": "a" * (MAX_PATH + 1)}),
    _deployment("path-missing", MISSING, source={"path": None}),
    _deployment("revision-that-is-an-option", REVISION_MESSAGE, source={"targetRevision": "--upload-pack=x"}),
    _deployment("revision-oversized", TOO_LONG, source={"targetRevision": "a" * (MAX_REVISION + 1)}),
)

ENVIRONMENTS = (
    _environment("least"),
    _environment("everything", createNewServiceAccount=True, namespaces=["a", "b"], clusterResources=True),
    _environment("scheme-in-capitals", apiURL="HTTPS://api.example.com"),
    _environment("ip-v6", apiURL="https://[2001:db8::1]:6443/k8s/clusters/c-1"),
    _environment("query-because-a-condition-tells-of-it", apiURL="https://api.example.com?x=1&y=2"),
    _environment("namespace-invalid-because-a-condition-tells-of-it", namespaces=["No_Name", "x" * 64]),
    _environment("secret-empty-because-a-condition-tells-of-it", credentialsSecret=""),
    _environment("http", API_URL_MESSAGE, apiURL="http://api.example.com"),
    _environment("other-scheme", API_URL_MESSAGE, apiURL="file:///etc/passwd"),
    _environment("scheme-relative", API_URL_MESSAGE, apiURL="//api.example.com"),
    _environment("only-a-path", API_URL_MESSAGE, apiURL="/api"),
    _environment("opaque", API_URL_MESSAGE, apiURL="https:api.example.com"),
    _environment("no-host", API_URL_MESSAGE, apiURL="https:///api"),
    _environment("only-a-port", API_URL_MESSAGE, apiURL="https://:6443"),
    _environment("no-url", NO_URL, apiURL="api.example.com"),
    _environment("empty", NO_URL, apiURL=""),
    _environment("port-no-number", NO_URL, apiURL="https://api.example.com:port"),
    _environment("full-width-scheme", NO_URL, apiURL="ｈｔｔｐｓ://api.example.com"),  # noqa: RUF001 - that is the point
    _environment("control-character", NO_URL, apiURL="https://api.example.com/\x01"),
    _environment("backslash", NO_URL, apiURL="https://api.example.com\\@evil.example.com"),
    _environment("cyrillic-host", ASCII_MESSAGE, apiURL="https://аpi.example.com"),  # noqa: RUF001 - that is the point
    _environment("full-width-digits", ASCII_MESSAGE, apiURL="https://１２７.0.0.1"),  # noqa: RUF001 - that is the point
    _environment("invisible-character", ASCII_MESSAGE, apiURL="https://api.example\u200b.com"),
    _environment("right-to-left-override", ASCII_MESSAGE, apiURL="https://api.example.com/\u202e"),
    _environment("user-and-password", USER_INFO_MESSAGE, apiURL="https://me:pw@api.example.com"),
    _environment("user", USER_INFO_MESSAGE, apiURL="https://api.example.com@evil.example.com"),
    _environment("fragment", FRAGMENT_MESSAGE, apiURL="https://api.example.com/#"),
    _environment("url-oversized", TOO_LONG, apiURL="https://api.example.com/" + "a" * MAX_URL),
    _environment("url-a-list", WRONG_TYPE, apiURL=["https://api.example.com"]),
    _environment("url-null", MISSING, apiURL=NULL),
    _environment("url-missing", MISSING, apiURL=None),
    _environment("secret-missing", MISSING, credentialsSecret=None),
    _environment("secret-oversized", TOO_LONG, credentialsSecret="s" * (MAX_NAME + 1)),
    _environment("tls-choice-missing", MISSING, allowInsecureSkipTLSVerify=None),
    _environment("tls-choice-null", MISSING, allowInsecureSkipTLSVerify=NULL),
    _environment("tls-choice-a-string", WRONG_TYPE, allowInsecureSkipTLSVerify="true"),
    _environment("account-choice-a-number", WRONG_TYPE, createNewServiceAccount=1),
    _environment("cluster-resources-a-string", WRONG_TYPE, clusterResources="yes"),
    _environment("namespaces-a-string", WRONG_TYPE, namespaces="a,b"),
    _environment("namespaces-with-null", WRONG_TYPE, namespaces=["a", None]),
    _environment("namespaces-too-many", TOO_MANY, namespaces=["a"] * (MAX_NAMESPACES + 1)),
    _environment("namespace-oversized", TOO_LONG, namespaces=["a" * (MAX_NAME + 1)]),
)

CREDENTIALS = (
    _credential("https"),
    _credential("ssh", repository="ssh://git.example.com/a.git"),
    _credential("ssh-with-user-and-port", repository="ssh://git@git.example.com:2222/a.git"),
    _credential("scheme-in-capitals", repository="HTTPS://git.example.com/a.git"),
    _credential("secret-empty-because-a-condition-tells-of-it", secret=""),
    _credential("like-scp", repository="git@git.example.com:a/b.git"),
    _credential("like-scp-with-an-option-for-a-user", NO_URL, repository="-oProxyCommand=id@git.example.com:a"),
    _credential("like-scp-without-a-user", REPOSITORY_MESSAGE, repository="git.example.com:a/b.git"),
    _credential("like-scp-without-a-path", NO_URL, repository="git@git.example.com:"),
    _credential("like-scp-after-a-transport", REPOSITORY_MESSAGE, repository="ext::git@git.example.com:a"),
    _credential("no-url", NO_URL, repository="git.example.com/a"),
    _credential("empty", NO_URL, repository=""),
    _credential("full-width-scheme", NO_URL, repository="ｓｓｈ://git.example.com/a"),  # noqa: RUF001 - that is the point
    _credential("http", REPOSITORY_MESSAGE, repository="http://git.example.com/a"),
    _credential("file", REPOSITORY_MESSAGE, repository="file:///srv/git/a"),
    _credential("git", REPOSITORY_MESSAGE, repository="git://git.example.com/a"),
    _credential("other-transport", REPOSITORY_MESSAGE, repository="ext::sh -c id"),
    _credential("transport-before-scheme", REPOSITORY_MESSAGE, repository="fd::https://git.example.com/a"),
    _credential("path", REPOSITORY_MESSAGE, repository="/srv/git/a"),
    _credential("opaque", REPOSITORY_MESSAGE, repository="https:git.example.com/a"),
    _credential("no-host", REPOSITORY_MESSAGE, repository="ssh:///a"),
    _credential("https-with-a-user", USER_MESSAGE, repository="https://me@git.example.com/a"),
    _credential("https-with-a-password", USER_MESSAGE, repository="hTTps://me:pw@git.example.com/a"),
    _credential("ssh-with-a-password", PASSWORD_MESSAGE, repository="ssh://git:pw@git.example.com/a"),
    _credential("cyrillic-host", ASCII_MESSAGE, repository="https://gіt.example.com/a"),  # noqa: RUF001 - that is the point
    _credential("space", NO_URL, repository="https://git example.com/a"),
    _credential("oversized", TOO_LONG, repository="https://git.example.com/".ljust(MAX_REPOSITORY + 1, "a")),
    _credential("a-map", WRONG_TYPE, repository={"url": "https://git.example.com/a"}),
    _credential("missing", MISSING, repository=None),
    _credential("null", MISSING, repository=NULL),
    _credential("secret-missing", MISSING, secret=None),
    _credential("secret-a-map", WRONG_TYPE, secret={"name": "login"}),
    _credential("secret-oversized", TOO_LONG, secret="s" * (MAX_NAME + 1)),
)

SYNC_RUNS = (
    _run("least"),
    _run("revision", revisionID="v1.2.3"),
    _run("revision-empty", revisionID=""),
    _run("deployment-missing", MISSING, gitopsDeploymentName=None),
    _run("deployment-null", MISSING, gitopsDeploymentName=NULL),
    _run("deployment-a-number", WRONG_TYPE, gitopsDeploymentName=1),
    _run("deployment-oversized", TOO_LONG, gitopsDeploymentName="w" * (MAX_NAME + 1)),
    _run("revision-that-is-an-option", REVISION_MESSAGE, revisionID="-c"),
    _run("revision-a-number", WRONG_TYPE, revisionID=1),
    _run("revision-oversized", TOO_LONG, revisionID="a" * (MAX_REVISION + 1)),
)

CASES = DEPLOYMENTS + ENVIRONMENTS + CREDENTIALS + SYNC_RUNS

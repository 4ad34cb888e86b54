"""What resources show of themselves, against what Argo CD says of their Applications, and what is known of logins."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from chaos.api import APPLICATION_PREFIX
from chaos.checker.conditions import condition_of
from chaos.checker.difference import Difference, difference_of, differing_parts
from chaos.checker.tenants import LOCAL, Deployment, Environment, Tenant
from chaos.checker.world import World
from services.common.kubernetes import Manifest

CONNECTIONS = {
    "works": "Succeeded",
    "no secret": "SecretNotFound",
    "refused": "UnableToValidateClusterCredentials",
}
ENDED = ("Succeeded", "Failed", "Error")
NO_OPERATION = dict.fromkeys(("phase", "startedAt", "finishedAt"))
"""Of an Application that another Argo CD had, or that was made anew; the last one may be shown, if it has ended."""
NO_ACCOUNT = "UnableToInstallServiceAccount"
"""Where an account is to be made with a token that is refused: that comes before anything is validated."""


def status_differences(world: World, tenants: list[Tenant]) -> Iterator[Difference]:
    """All of them; of sync runs see the module for these."""
    applications = {item["metadata"]["name"]: item for item in world.applications}
    accounts = {item["metadata"]["name"] for item in world.accounts}
    for tenant in tenants:
        for deployment in tenant.deployments:
            application = applications.get(f"{APPLICATION_PREFIX}{deployment.uid}")
            for text in _deployment(tenant, deployment, application):
                yield difference_of("status", deployment.manifest, text)
        for environment in tenant.environments.values():
            for text in _environment(environment, accounts):
                yield difference_of("status", environment.manifest, text)
        for credential in tenant.credentials:
            wanted, found = _login_reason(tenant, credential), condition_of(credential, "ErrorOccurred").get("reason")
            if found != wanted:
                yield difference_of("status", credential, f"the reason is {found}, not {wanted}")


def _environment(environment: Environment, accounts: Collection[str]) -> Iterator[str]:
    is_refused_account = environment.creates_account and environment.usability == "refused"
    wanted = NO_ACCOUNT if is_refused_account else CONNECTIONS[environment.usability]
    found = condition_of(environment.manifest, "ConnectionInitializationSucceeded").get("reason")
    if found != wanted:
        yield f"the connection's reason is {found}, not {wanted}"
    if environment.creates_account and environment.usability == "works" and environment.account not in accounts:
        yield "its account is not on its cluster"


def _deployment(tenant: Tenant, deployment: Deployment, application: Manifest | None) -> Iterator[str]:
    error = condition_of(deployment.manifest, "ErrorOccurred")
    if deployment.refusal:
        if error.get("status") != "True" or not error.get("message", "").startswith(deployment.refusal):
            yield f"its spec is refused, and the error is {error.get('message')}"
        return
    if not deployment.is_certain:
        named = deployment.manifest["spec"]["destination"]["environment"]
        if named not in tenant.environments and error.get("status") != "True":
            yield f"the environment {named} does not exist, and no error says so"
        return
    if error.get("status") == "True":
        yield f"there is an error: {error.get('message')}"
    if application is not None:
        yield from _settled(deployment, application)
        shown, showing = _shown(tenant, application), _showing(deployment.manifest)
        if shown["operation"] == NO_OPERATION and showing["operation"]["phase"] in ENDED:
            shown["operation"] = showing["operation"]
        yield from differing_parts(shown, showing)


def _settled(deployment: Deployment, application: Manifest) -> Iterator[str]:
    """Argo CD has deployed what it was given; otherwise there is nothing yet to compare with."""
    status = application.get("status") or {}
    sync = status.get("sync") or {}
    compared = (sync.get("comparedTo") or {}).get("source")
    if compared != application["spec"]["source"]:
        yield "its Application was not compared with its source yet"
    if deployment.manifest["spec"]["type"] == "automated" and sync.get("status") != "Synced":
        yield f"its Application is {sync.get('status')}, not Synced"


def _shown(tenant: Tenant, application: Manifest) -> dict[str, Any]:
    """The status that the Application gives reason for."""
    status = application.get("status") or {}
    sync, health = status.get("sync") or {}, status.get("health") or {}
    operation = status.get("operationState") or {}
    return {
        "sync": {name: sync.get(name) for name in ("status", "revision")},
        "health": health.get("status"),
        "operation": {name: operation.get(name) for name in NO_OPERATION},
        "resources": sorted(_resource(item) for item in status.get("resources") or ()),
        "reconciled": _reconciled(tenant, sync.get("comparedTo") or {}),
    }


def _showing(deployment: Manifest) -> dict[str, Any]:
    """The same of the status that is shown."""
    status = deployment.get("status") or {}
    sync, health = status.get("sync") or {}, status.get("health") or {}
    operation, reconciled = status.get("operationState") or {}, status.get("reconciledState") or {}
    return {
        "sync": {name: sync.get(name) for name in ("status", "revision")},
        "health": health.get("status"),
        "operation": {name: operation.get(name) for name in NO_OPERATION},
        "resources": sorted(_resource(item) for item in status.get("resources") or ()),
        "reconciled": reconciled,
    }


def _reconciled(tenant: Tenant, compared: Mapping[str, Any]) -> dict[str, Any]:
    source, destination = compared.get("source") or {}, compared.get("destination") or {}
    if not source:
        return {}
    names = {environment.cluster: name for name, environment in tenant.environments.items()} | {LOCAL: ""}
    cluster = destination.get("name", "")
    return {
        "source": {
            "path": source["path"],
            "repoURL": source["repoURL"],
            "branch": source.get("targetRevision", ""),
        },
        "destination": {"name": names.get(cluster, cluster), "namespace": destination.get("namespace", "")},
    }


def _resource(item: Mapping[str, Any]) -> tuple[str, ...]:
    names = ("group", "kind", "namespace", "name", "status")
    return (*(item.get(name) or "" for name in names), (item.get("health") or {}).get("status") or "")


def _login_reason(tenant: Tenant, credential: Manifest) -> str:
    if credential["spec"]["secret"] not in tenant.secrets:
        return "SecretNotFound"
    return "RepositoryCredentialUpToDate" if tenant.opens(credential) else "InvalidCredentials"

"""Where AppStudio's Environments are: each on a claim has what the claim's target says, and its Secret."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from chaos.api import APP_ENVIRONMENT, COPY_PREFIX, MANAGED_ENVIRONMENT_PREFIX
from chaos.checker.conditions import error_of
from chaos.checker.difference import Difference, Sort, difference_of, differing_parts
from chaos.checker.tenants import Environment, Tenant, owner_of
from services.common.kubernetes import Manifest

OWN_NAMESPACE = {"environment": "", "namespace": ""}


def place_differences(tenants: list[Tenant]) -> Iterator[Difference]:
    """All of them."""
    for tenant in tenants:
        made = {uid: each for each in tenant.environments.values() if (uid := _owner(each.manifest))}
        copies = {uid: each for each in tenant.secrets.values() if (uid := _owner(each))}
        live = {item["metadata"]["uid"] for item in tenant.app_environments.values()}
        for uid, item in (*((uid, each.manifest) for uid, each in made.items()), *copies.items()):
            if uid not in live:
                yield difference_of("extra", item, "its Environment is gone")
        for environment in tenant.app_environments.values():
            uid = environment["metadata"]["uid"]
            yield from _of_environment(environment, tenant, made.get(uid), copies.get(uid))


def destination_of(environment: Manifest, tenant: Tenant) -> Mapping[str, str] | None:
    """Of what is deployed to it; None: its claim has no target, so whatever there is stays."""
    name = claim_of(environment)
    if not name:
        return OWN_NAMESPACE
    target = _bound_target(name, tenant)
    if target is None:
        return None
    namespace = target["spec"]["kubernetesCredentials"]["defaultNamespace"]
    made = f"{MANAGED_ENVIRONMENT_PREFIX}{environment['metadata']['name']}"
    return {"environment": made, "namespace": namespace}


def claim_of(environment: Manifest) -> str:
    """Name of the claim that it is on; empty: it is its own namespace."""
    target = (environment["spec"].get("configuration") or {}).get("target") or {}
    name: str = (target.get("deploymentTargetClaim") or {}).get("claimName") or ""
    return name


def _bound_target(claim_name: str, tenant: Tenant) -> Manifest | None:
    claim = tenant.claims.get(claim_name)
    if claim is None or (claim.get("status") or {}).get("phase") != "Bound":
        return None
    return tenant.targets.get(claim["spec"].get("targetName") or "")


def _of_environment(
    environment: Manifest, tenant: Tenant, made: Environment | None, copy: Manifest | None
) -> Iterator[Difference]:
    name = claim_of(environment)
    target = _bound_target(name, tenant)
    if not name:
        for item in (made.manifest if made else None, copy):
            if item is not None:
                yield difference_of("extra", item, "its Environment is its own namespace")
    elif target is not None:
        yield from _on_target(environment, tenant, target["spec"]["kubernetesCredentials"], made, copy)
    elif name not in tenant.claims and not error_of(environment):
        yield difference_of("status", environment, f"there is no claim {name}, and no error says so")


def _on_target(
    environment: Manifest, tenant: Tenant, credentials: Manifest, made: Environment | None, copy: Manifest | None
) -> Iterator[Difference]:
    source, error = credentials["clusterCredentialsSecret"], error_of(environment)
    is_missing = source not in tenant.secrets and source not in tenant.logins_of_spaces
    if is_missing != bool(error):
        yield difference_of("status", environment, f"its Secret is{' not' if is_missing else ''} there: {error!r}")
    yield from _compared(environment, _wanted(environment, credentials, tenant), made)
    yield from _copied(environment, tenant.logins_of_spaces.get(source), copy)


def _wanted(environment: Manifest, credentials: Manifest, tenant: Tenant) -> Manifest:
    """The spec of its ManagedEnvironment."""
    source, name = credentials["clusterCredentialsSecret"], environment["metadata"]["name"]
    return {
        "apiURL": credentials["apiURL"],
        "credentialsSecret": f"{COPY_PREFIX}{name}" if source in tenant.logins_of_spaces else source,
        "allowInsecureSkipTLSVerify": credentials["allowInsecureSkipTLSVerify"],
        "namespaces": [credentials["defaultNamespace"]],
        "clusterResources": False,
        "createNewServiceAccount": False,
    }


def _compared(environment: Manifest, wanted: Manifest, made: Environment | None) -> Iterator[Difference]:
    if made is None:
        yield difference_of("missing", environment, "it has no ManagedEnvironment, and its claim has a target")
        return
    name = f"{MANAGED_ENVIRONMENT_PREFIX}{environment['metadata']['name']}"
    found = {"clusterResources": False, "createNewServiceAccount": False} | made.spec
    look = {"name": made.manifest["metadata"]["name"], "spec": found}
    if texts := differing_parts({"name": name, "spec": wanted}, look):
        yield difference_of("differs", made.manifest, "; ".join(texts))


def _copied(environment: Manifest, source: Manifest | None, copy: Manifest | None) -> Iterator[Difference]:
    """A Secret of the sandbox is of another type, so Argo CD's is made of a copy."""
    if copy is not None and source is None:
        yield difference_of("extra", copy, "there is nothing that it is a copy of")
    elif source is not None and (copy is None or copy.get("data") != source.get("data")):
        sort: Sort = "missing" if copy is None else "differs"
        yield difference_of(sort, environment, f"its Secret is no copy of {source['metadata']['name']}")


def _owner(item: Manifest) -> str:
    return owner_of(item, APP_ENVIRONMENT)

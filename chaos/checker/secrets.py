"""The Secrets by which Argo CD knows tenants' clusters and repositories."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

from chaos.api import DATABASE_ID, REPOSITORY_PREFIX, SECRET_TYPE
from chaos.checker.difference import differing_parts
from chaos.checker.expected import OURS, Expected, one_of
from chaos.checker.tenants import Environment, Tenant
from chaos.checker.world import account_of, authority_of, decoded, token_of
from chaos.identity import resource_id
from services.common.kubernetes import Manifest


def cluster_secrets(tenant: Tenant) -> Iterator[Expected]:
    """Of environments that work; of one whose Secret does not work any more, what worked last, if anything did."""
    for environment in tenant.environments.values():
        if environment.usability == "no secret":
            continue
        if environment.cluster in tenant.clusters_with_unknown_past:
            yield Expected(("Secret", environment.cluster), tenant.name, _unplaced(environment), is_certain=False)
            continue
        works = environment.usability == "works"
        specs = [environment.spec] if works else tenant.record.contents[environment.uid]
        contents = [tenant.secrets[environment.spec["credentialsSecret"]]["data"]] if works else _former_secrets(tenant)
        allowed = [_cluster(tenant, environment, spec, data) for spec in specs for data in contents]
        yield Expected(("Secret", environment.cluster), tenant.name, one_of(allowed, _look), is_certain=works)


def _unplaced(environment: Environment) -> Callable[[Manifest], list[str]]:
    """What must be true of it, whatever worked last."""
    made_for = resource_id(environment.uid)
    labels = OURS | {DATABASE_ID: made_for, SECRET_TYPE: "cluster"}
    wanted = {
        "labels": labels,
        "name": environment.cluster,
        "server": f"{environment.spec['apiURL']}?managedEnvironment={made_for}",
    }

    def problems(item: Manifest) -> list[str]:
        look = _look(item)
        found = {"labels": look["labels"], "name": look["data"].get("name"), "server": look["data"].get("server")}
        return differing_parts(wanted, found)

    return problems


def _former_secrets(tenant: Tenant) -> list[Manifest]:
    """Contents with which environments may have worked."""
    uids = [uid for uid, name in tenant.record.names.items() if name == ("Secret", tenant.name, "kubeconfig")]
    return [data for uid in uids for data in tenant.record.contents[uid] if token_of(data) in tenant.facts.tokens]


def _cluster(tenant: Tenant, environment: Environment, spec: Manifest, data: Manifest) -> Manifest:
    made_for = resource_id(environment.uid)
    config = {
        "bearerToken": environment.account if spec.get("createNewServiceAccount") else token_of(data),
        "tlsClientConfig": {"insecure": False, "caData": authority_of(data)},
    }
    content = {
        "name": environment.cluster,
        "server": f"{spec['apiURL']}?managedEnvironment={made_for}",
        "config": config,
        "project": tenant.project_of(spec),
    }
    if namespaces := spec.get("namespaces"):
        content["namespaces"] = ",".join(sorted(set(namespaces)))
    if spec.get("clusterResources"):
        content["clusterResources"] = "true"
    return {"labels": OURS | {DATABASE_ID: made_for, SECRET_TYPE: "cluster"}, "data": content}


def repository_secrets(tenant: Tenant) -> Iterator[Expected]:
    """One for each AppProject of the tenant. Of a credential that opens no repository any more, what worked last."""
    for credential in tenant.credentials:
        made_for = resource_id(credential["metadata"]["uid"])
        if credential["spec"]["secret"] not in tenant.secrets:
            continue
        works = tenant.opens(credential)
        specs = [credential["spec"]] if works else tenant.record.contents[credential["metadata"]["uid"]]
        labels = OURS | {DATABASE_ID: made_for, SECRET_TYPE: "repository"}
        for suffix, project in _projects_of_logins(tenant):
            name = ("Secret", f"{REPOSITORY_PREFIX}{made_for}{suffix}")
            allowed = [{"labels": labels, "data": _repository(tenant, spec) | {"project": project}} for spec in specs]
            is_certain = works and (not suffix or tenant.has_cluster_resources)
            yield Expected(name, tenant.name, one_of(allowed, _look), is_certain)


def _repository(tenant: Tenant, spec: Manifest) -> Manifest:
    return {"name": spec["secret"], "url": spec["repository"], **tenant.login_for(spec["repository"])}


def _projects_of_logins(tenant: Tenant) -> Iterator[tuple[str, str]]:
    yield "", tenant.project
    if tenant.may_have_cluster_resources:
        yield "-cluster", tenant.cluster_project


def _look(item: Manifest) -> Manifest:
    data: Manifest = dict(decoded(item.get("data")))
    config = {"config": _look_at_config(json.loads(data["config"]))} if "config" in data else {}
    return {"labels": item["metadata"].get("labels") or {}, "data": data | config}


def _look_at_config(config: Manifest) -> Manifest:
    """Whose token it has, if that is of an account that an environment has created: such a token is renewed."""
    return config | {"bearerToken": account_of(config["bearerToken"])} if "bearerToken" in config else config

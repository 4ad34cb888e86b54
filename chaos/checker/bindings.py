"""Bindings of AppStudio: each binding in force has the deployments of its components, and no other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from chaos.api import APPSTUDIO_LABELS, BINDING
from chaos.checker.difference import Difference, difference_of, differing_parts
from chaos.checker.places import destination_of
from chaos.checker.tenants import Tenant
from chaos.checker.world import World
from chaos.record import Commit
from services.common.kubernetes import Manifest

COMPONENT_LABEL = f"{APPSTUDIO_LABELS}/component"


def binding_of(deployment: Manifest) -> str:
    """Uid of the binding that a GitOpsDeployment is of; empty: a user has made it."""
    owners = deployment["metadata"].get("ownerReferences") or []
    return next((each["uid"] for each in owners if each.get("controller") and each["kind"] == BINDING.kind), "")


def binding_differences(world: World, tenants: list[Tenant]) -> Iterator[Difference]:
    """All of them."""
    bindings = {item["metadata"]["uid"] for item in world.bindings}
    for child in world.deployments:
        if (owner := binding_of(child)) and owner not in bindings:
            yield difference_of("extra", child, "its binding is gone")
    for tenant in tenants:
        yield from _of_tenant(tenant)


def _of_tenant(tenant: Tenant) -> Iterator[Difference]:
    in_force: dict[tuple[str, str], str] = {}
    for binding in sorted(tenant.own(tenant.world.bindings), key=_age):
        meta, spec = binding["metadata"], binding["spec"]
        environment = tenant.app_environments.get(spec["environment"])
        place = destination_of(environment, tenant) if environment is not None else None
        first = in_force.setdefault((spec["application"], spec["environment"]), meta["name"])
        children = [each for each in tenant.own(tenant.world.deployments) if binding_of(each) == meta["uid"]]
        found = {each["metadata"]["name"]: each for each in children}
        if first != meta["name"]:
            yield from _compared({}, found)
            reason = "DuplicateBinding"
        elif place is not None and not _is_unbuilt(binding, tenant):
            yield from _compared(_wanted(binding, place), found)
            yield from _at_other_commits(binding, tenant)
            reason = "Reconciled"
        else:
            yield from _compared(
                {}, {name: each for name, each in found.items() if name not in _former(binding, tenant)}
            )
            reason = "EnvironmentNotFound" if environment is None else "ErrorGeneratingGitOpsDeployment"
            reason = reason if place is None else "WaitingForComponentStatus"
        for text in _status_problems(binding, children, reason):
            yield difference_of("status", binding, text)


def _age(binding: Manifest) -> tuple[str, str]:
    return binding["metadata"]["creationTimestamp"], binding["metadata"]["name"]


def _wanted(binding: Manifest, place: Mapping[str, str]) -> dict[str, Manifest]:
    """What is to be found of each GitOpsDeployment, by name: where the build service says that its manifests are."""
    spec, name = binding["spec"], binding["metadata"]["name"]
    said = {each["name"]: each["gitopsRepository"] for each in (binding.get("status") or {}).get("components") or ()}
    wanted = {}
    for component in _components(spec):
        repository = said.get(component, {})
        source = {"repoURL": repository.get("url"), "path": repository.get("path")}
        names = {"application": spec["application"], "component": component, "environment": spec["environment"]}
        wanted[_deployment_name(name, spec, component)] = {
            "labels": {f"{APPSTUDIO_LABELS}/{what}": each for what, each in names.items()},
            "spec": {
                "source": source | {"targetRevision": repository.get("branch")},
                "destination": {**place},
                "syncPolicy": {"syncOptions": []},
                "type": "automated",
            },
        }
    return wanted


def _is_unbuilt(binding: Manifest, tenant: Tenant) -> bool:
    """Whether its Snapshot went before the build service had seen all of its components."""
    said = {each["name"] for each in (binding.get("status") or {}).get("components") or ()}
    snapshots = {item["metadata"]["name"] for item in tenant.own(tenant.world.snapshots)}
    return binding["spec"]["snapshot"] not in snapshots and not said.issuperset(_components(binding["spec"]))


def _at_other_commits(binding: Manifest, tenant: Tenant) -> Iterator[Difference]:
    """Deployments that are synced to others than the build service names, or had named later on the same branch."""
    said = {each["name"]: each["gitopsRepository"] for each in (binding.get("status") or {}).get("components") or ()}
    for each in tenant.deployments:
        if binding_of(each.manifest) != binding["metadata"]["uid"] or not each.is_certain:
            continue
        named = said.get(each.manifest["metadata"]["labels"][COMPONENT_LABEL])
        sync = (each.manifest.get("status") or {}).get("sync") or {}
        if named is None or sync.get("status") != "Synced":
            continue
        commit = Commit(named["url"], named["branch"], named["path"], named["commitID"])
        if sync["revision"] not in tenant.record.this_or_later(commit):
            yield difference_of("status", each.manifest, f"it is at {sync['revision']}, and {commit.id} is named")


def _former(binding: Manifest, tenant: Tenant) -> set[str]:
    """Names of all GitOpsDeployments that it ever had: which were there when its environment went, depends on time."""
    meta, contents = binding["metadata"], tenant.record.contents[binding["metadata"]["uid"]]
    return {
        _deployment_name(meta["name"], spec, component)
        for spec in (*contents, binding["spec"])
        for component in _components(spec)
    }


def _components(spec: Manifest) -> list[str]:
    return [each["name"] for each in spec["components"]]


def _deployment_name(binding: str, spec: Manifest, component: str) -> str:
    return f"{binding}-{spec['application']}-{spec['environment']}-{component}"


def _compared(wanted: Mapping[str, Manifest], found: Mapping[str, Manifest]) -> Iterator[Difference]:
    for name, child in found.items():
        if name not in wanted:
            yield difference_of("extra", child, "its binding does not have the component")
            continue
        look = {"labels": child["metadata"].get("labels") or {}, "spec": child["spec"]}
        if texts := differing_parts(wanted[name], look):
            yield difference_of("differs", child, "; ".join(texts))
    for name in wanted.keys() - found.keys():
        yield Difference("missing", f"GitOpsDeployment {name}", "a binding has its component")


def _status_problems(binding: Manifest, children: list[Manifest], reason: str) -> Iterator[str]:
    status = binding.get("status") or {}
    shown = sorted(status.get("gitopsDeployments") or [], key=lambda each: str(each["componentName"]))
    wanted = sorted(map(_shown, children), key=lambda each: str(each["componentName"]))
    if shown != wanted:
        yield f"it shows {shown}, not {wanted}"
    conditions = {each["type"]: each for each in status.get("bindingConditions") or ()}
    found = (conditions.get("Reconciled") or {}).get("reason")
    if found != reason:
        yield f"the reason is {found}, not {reason}"


def _shown(child: Manifest) -> dict[str, Any]:
    """What a binding shows of a deployment, as that shows it itself."""
    status = child.get("status") or {}
    sync, health = status.get("sync") or {}, status.get("health") or {}
    known = {
        "componentName": child["metadata"]["labels"][COMPONENT_LABEL],
        "gitopsDeployment": child["metadata"]["name"],
    }
    parts = {"syncStatus": sync.get("status"), "health": health.get("status"), "commitID": sync.get("revision")}
    return known | {name: text for name, text in parts.items() if text}

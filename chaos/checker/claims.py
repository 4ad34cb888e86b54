"""Claims, targets and SpaceRequests: who has which, and what is left of those that are gone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from chaos.api import (
    BIND_COMPLETE,
    CLAIM_LABEL,
    FOR_PROVISIONER,
    PROVISIONED_BY,
    TARGET,
    TARGET_LABEL,
)
from chaos.checker.conditions import error_of
from chaos.checker.difference import Difference, difference_of, differing_parts
from chaos.checker.tenants import Tenant
from chaos.checker.world import World
from chaos.record import Record, key_of
from services.common.kubernetes import Manifest


def claim_differences(world: World, tenants: list[Tenant], record: Record) -> Iterator[Difference]:
    """All of them."""
    for tenant in tenants:
        for claim in tenant.claims.values():
            yield from (difference_of("status", claim, text) for text in _claim_problems(claim, tenant, record))
        for target in tenant.targets.values():
            yield from (difference_of("status", target, text) for text in _target_problems(target, tenant))
            yield from _left_target(target, tenant, record)
            yield from _space_of(target, tenant)
        yield from _shared_targets(tenant)
        yield from _left_requests(tenant, record)
    made = {access["name"] for request in world.space_requests for access in _accesses(request)}
    for space in world.spaces:
        if space["metadata"]["name"] not in made:
            yield Difference("extra", f"Namespace {space['metadata']['name']}", "no SpaceRequest has it")


def _claim_problems(claim: Manifest, tenant: Tenant, record: Record) -> Iterator[str]:
    match phase := _phase(claim):
        case "Bound":
            yield from _bound_problems(claim, tenant)
        case "Lost":
            yield from _lost_problems(claim, tenant, record)
        case "Pending":
            yield from _pending_problems(claim, tenant, record)
        case _:
            yield f"its phase is {phase}"


def _bound_problems(claim: Manifest, tenant: Tenant) -> Iterator[str]:
    name, target = claim["metadata"]["name"], tenant.targets.get(_target_name(claim))
    if target is None:
        yield f"it is Bound to the target {_target_name(claim)}, which is not there"
        return
    wanted = {"claim": name, "class": _class(claim), "is complete": True, "error": ""}
    found = {
        "claim": target["spec"].get("claimRef"),
        "class": _class(target),
        "is complete": BIND_COMPLETE in _annotations(claim),
        "error": error_of(claim),
    }
    yield from differing_parts(wanted, found)


def _lost_problems(claim: Manifest, tenant: Tenant, record: Record) -> Iterator[str]:
    """Only who deletes a target that is bound makes its claim lose it."""
    name = _target_name(claim)
    if name and (TARGET.kind, tenant.name, name) not in record.deleted:
        yield f"it is Lost, and nobody has deleted the target {name}"
    if (target := tenant.targets.get(name)) is not None and _is_free(target, claim):
        yield f"it is Lost, and its target {name} is there"
    if not error_of(claim):
        yield "it is Lost, and no error says so"


def _pending_problems(claim: Manifest, tenant: Tenant, record: Record) -> Iterator[str]:
    asked = record.present.get(key_of(claim), claim)["spec"].get("targetName")
    name, class_name = claim["metadata"]["name"], _class(claim)
    if asked:
        target = tenant.targets.get(asked)
        if target is not None and _is_free(target, claim):
            yield f"it is Pending, and the target {asked}, which it names, is free"
        if target is not None and not error_of(claim):
            yield f"it is Pending, and no error says why it cannot have the target {asked}"
        return
    kept = [each for each in tenant.targets.values() if each["spec"].get("claimRef") == name]
    yield from (f"it is Pending, and {each['metadata']['name']} is for it" for each in kept if _is_free(each, claim))
    if class_name in tenant.sandbox_classes:
        yield "it is Pending, and the sandbox makes a target for each claim of its class"
    if _annotations(claim).get(FOR_PROVISIONER) != class_name:
        yield "it is Pending, and does not ask for a target to be made"


def _target_problems(target: Manifest, tenant: Tenant) -> Iterator[str]:
    name, claim_name = target["metadata"]["name"], target["spec"].get("claimRef") or ""
    match phase := _phase(target):
        case "Bound":
            claim = tenant.claims.get(claim_name)
            if claim is None:
                yield f"it is Bound to the claim {claim_name!r}, which is not there"
            elif (_phase(claim), _target_name(claim)) != ("Bound", name):
                yield f"it is Bound to {claim_name}, which is {_phase(claim)} with {_target_name(claim)!r}"
        case "Released":
            if claim_name:
                yield f"it is Released, and its claimRef is {claim_name}"
        case "Available":
            pass
        case _:
            yield f"its phase is {phase}"


def _left_target(target: Manifest, tenant: Tenant, record: Record) -> Iterator[Difference]:
    """What is released goes if its class says so, and so does what was made for a claim that is gone."""
    if record.policies[_class(target)] != {"Delete"}:
        return
    was_made, claim_name = PROVISIONED_BY in _annotations(target), target["spec"].get("claimRef") or ""
    if _phase(target) == "Released" or (was_made and claim_name not in tenant.claims):
        yield difference_of("extra", target, "its claim is gone, and its class says Delete")


def _space_of(target: Manifest, tenant: Tenant) -> Iterator[Difference]:
    """A target that was made on demand is what the sandbox has made."""
    if PROVISIONED_BY not in _annotations(target):
        return
    requests = [each for each in tenant.space_requests if _labels(each).get(TARGET_LABEL) == target["metadata"]["name"]]
    if len(requests) != 1:
        yield difference_of("missing", target, f"{len(requests)} SpaceRequests are labelled as its own")
        return
    credentials = target["spec"]["kubernetesCredentials"]
    found = [{"name": credentials["defaultNamespace"], "secretRef": credentials["clusterCredentialsSecret"]}]
    if _accesses(requests[0]) != found:
        yield difference_of(
            "differs", target, f"its SpaceRequest gives access to {_accesses(requests[0])}, not {found}"
        )


def _shared_targets(tenant: Tenant) -> Iterator[Difference]:
    bound = Counter(_target_name(each) for each in tenant.claims.values() if _phase(each) == "Bound")
    for name, number in bound.items():
        if number > 1:
            yield Difference("differs", f"target {tenant.name}/{name}", f"{number} claims have it", tenant.name)


def _left_requests(tenant: Tenant, record: Record) -> Iterator[Difference]:
    """Where the policy is Delete a SpaceRequest is there for a target, or for a claim; for each one."""
    seen: Counter[str] = Counter()
    for request in tenant.space_requests:
        claim, target = _labels(request).get(CLAIM_LABEL, ""), _labels(request).get(TARGET_LABEL, "")
        seen[claim] += 1
        if request["metadata"].get("deletionTimestamp"):
            yield difference_of("extra", request, "its deletion has not ended")
        elif record.policies[_annotations(request).get(FOR_PROVISIONER, "")] != {"Delete"}:
            continue
        elif target not in tenant.targets and claim not in tenant.claims:
            yield difference_of("extra", request, "no claim asks for it, and no target is made of it")
        elif seen[claim] > 1:
            yield difference_of("extra", request, f"it is the second of the claim {claim}")


def _is_free(target: Manifest, claim: Manifest) -> bool:
    """Whether this claim can have it."""
    return (
        _phase(target) == "Available"
        and _class(target) == _class(claim)
        and (target["spec"].get("claimRef") or "") in {"", claim["metadata"]["name"]}
    )


def _phase(item: Manifest) -> Any:
    return (item.get("status") or {}).get("phase")


def _class(item: Manifest) -> str:
    name: str = item["spec"]["deploymentTargetClassName"]
    return name


def _target_name(claim: Manifest) -> str:
    return claim["spec"].get("targetName") or ""


def _annotations(item: Manifest) -> Manifest:
    return item["metadata"].get("annotations") or {}


def _labels(item: Manifest) -> Manifest:
    return item["metadata"].get("labels") or {}


def _accesses(request: Manifest) -> list[Manifest]:
    return (request.get("status") or {}).get("namespaceAccess") or []

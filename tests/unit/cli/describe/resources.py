"""Resources as an API server has them, and the shop: an application in the middle of a promotion."""

from __future__ import annotations

from typing import Any

from services.cli.describe.application_view import Listed
from services.common.json_values import digest
from services.kinds.deployment_target_claim.catalogue import CLASS_NOT_FOUND
from services.kinds.environment.catalogue import PARENT_NOT_FOUND
from services.kinds.promotion_run.catalogue import WAITS_FOR_DEPLOYMENTS, WAITS_FOR_RUN

Manifest = dict[str, Any]


def resource(name: str, spec: Any, status: Any = None, *, minute: int = 0) -> Manifest:
    meta = {"name": name, "creationTimestamp": f"2026-11-25T12:{minute:02}:00Z"}
    return {"metadata": meta, "spec": spec} | ({"status": status} if status is not None else {})


def condition(type_: str, message: str, status: str = "True") -> Manifest:
    return {"type": type_, "status": status, "reason": type_, "message": message}


def error(message: str) -> list[Manifest]:
    return [condition("ErrorOccurred", message)]


def environment(
    name: str, parent: str = "", *, claim: str = "", strategy: str = "Manual", problem: str = ""
) -> Manifest:
    spec: Manifest = {"displayName": name, "deploymentStrategy": strategy}
    spec |= {"parentEnvironment": parent} if parent else {}
    spec |= {"configuration": {"target": {"deploymentTargetClaim": {"claimName": claim}}}} if claim else {}
    return resource(name, spec, {"conditions": error(problem)} if problem else None)


def claim(name: str, phase: str, target: str = "", problem: str = "") -> Manifest:
    spec = {"deploymentTargetClassName": "isolation-level-namespace"} | ({"targetName": target} if target else {})
    return resource(name, spec, {"phase": phase, "conditions": error(problem) if problem else []})


def commit(snapshot: str, component: str) -> str:
    return digest(f"{snapshot}/{component}")[:40]


def binding(
    where: str, snapshot: str, *, components: tuple[str, ...] = ("cart", "catalogue"), **deployed: Any
) -> Manifest:
    """``deployed``: sync, health and snapshot of components that are not as the binding's snapshot has them."""
    states = {name: deployed.get(name, ("Synced", "Healthy", snapshot)) for name in components}
    synced = sum(sync == "Synced" for sync, _, _ in states.values())
    status = {
        "gitopsDeployments": [
            {
                "componentName": name,
                "gitopsDeployment": f"shop-{where}-shop-{where}-{name}",
                "syncStatus": sync,
                "health": health,
                "commitID": commit(at, name),
            }
            for name, (sync, health, at) in states.items()
        ],
        "components": [
            {
                "name": name,
                "gitopsRepository": {"url": "u", "branch": "main", "path": "p", "commitID": commit(snapshot, name)},
            }
            for name in components
        ],
        "componentDeploymentConditions": [
            condition("AllComponentsDeployed", f"{synced} of {len(components)} components deployed")
        ],
    }
    spec = {
        "application": "shop",
        "environment": where,
        "snapshot": snapshot,
        "components": [{"name": name} for name in components],
    }
    return resource(f"shop-{where}", spec, status)


def run(
    name: str, snapshot: str, where: str, status: Any = None, *, automated: bool = False, minute: int = 0
) -> Manifest:
    way = {"automatedPromotion": {"initialEnvironment": where}} if automated else {}
    way |= {} if automated else {"manualPromotion": {"targetEnvironment": where}}
    return resource(name, {"application": "shop", "snapshot": snapshot} | way, status, minute=minute)


def step(where: str, display: str, status: str = "In Progress") -> Manifest:
    return {"step": 1, "environmentName": where, "status": status, "displayStatus": display}


SHOP = Listed(
    environments=[
        environment("development", strategy="AppStudioAutomated"),
        environment("staging", "development", claim="staging", strategy="AppStudioAutomated"),
        environment("production", "staging"),
        environment("load-test", "integration", claim="load-test", problem=PARENT_NOT_FOUND.text(parent="integration")),
    ],
    bindings=[
        binding("development", "shop-2"),
        binding("staging", "shop-2"),
        binding("production", "shop-2", cart=("OutOfSync", "Healthy", "shop-1")),
    ],
    runs=[
        run("shop-2", "shop-2", "development", {"state": "Complete", "completionResult": "Success"}, automated=True),
        run(
            "shop-2-to-production",
            "shop-2",
            "production",
            {
                "state": "Active",
                "environmentStatus": [
                    step(
                        "production",
                        WAITS_FOR_DEPLOYMENTS.format(deployments="shop-production-shop-production-cart"),
                    )
                ],
            },
            minute=5,
        ),
        run(
            "shop-3",
            "shop-3",
            "development",
            {
                "state": "Waiting",
                "environmentStatus": [step("development", WAITS_FOR_RUN.format(run="shop-2-to-production"))],
            },
            automated=True,
            minute=6,
        ),
    ],
    claims=[
        claim("staging", "Bound", "staging-dt"),
        claim("load-test", "Pending", problem=CLASS_NOT_FOUND.text(name="own-cluster")),
    ],
)

"""Claims, targets and classes for the tests of their rules."""

from __future__ import annotations

from typing import Any

from services.kinds.deployment_target.model import DeploymentTargetSpec
from services.kinds.deployment_target.rows import Target
from services.kinds.deployment_target_claim.model import DeploymentTargetClaimSpec
from services.kinds.deployment_target_claim.rows import Claim
from services.kinds.deployment_target_class.model import DEVSANDBOX, DeploymentTargetClassSpec


def claim(name: str = "a", target: str = "", class_: str = "space", created_at: int = 0, **changes: Any) -> Claim:
    spec = {"deploymentTargetClassName": class_} | ({"targetName": target} if target else {})
    given: dict[str, Any] = {"uid": f"uid-{name}", "created_at": created_at, "has_finalizer": True}
    return Claim(name=name, spec=DeploymentTargetClaimSpec.model_validate(spec), **(given | changes))


def target(name: str = "t", for_: str = "", class_: str = "space", secret: str = "login", **changes: Any) -> Target:
    spec = {
        "deploymentTargetClassName": class_,
        "kubernetesCredentials": {
            "defaultNamespace": "spaces-1",
            "apiURL": "https://api.example.com",
            "clusterCredentialsSecret": secret,
            "allowInsecureSkipTLSVerify": False,
        },
    } | ({"claimRef": for_} if for_ else {})
    return Target(name, DeploymentTargetSpec.model_validate(spec), **changes)


def class_(provisioner: str = DEVSANDBOX, policy: str = "Delete") -> DeploymentTargetClassSpec:
    return DeploymentTargetClassSpec.model_validate({"provisioner": provisioner, "reclaimPolicy": policy})

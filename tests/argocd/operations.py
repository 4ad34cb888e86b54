"""What an Application's operation, real Argo CD's own record of a sync, says."""

from __future__ import annotations

from typing import Any

from services.common.kubernetes import Manifest
from tests.e2e.tenant import Tenant, application_name, find


async def until_operation(tenant: Tenant, created: Manifest, phase: str, message: str) -> None:
    """Wait until Argo CD says so of the last sync of a deployment."""
    name = application_name(created)

    def state() -> dict[str, Any]:
        application = find(tenant.applications.objects, name) or {}
        found: dict[str, Any] = application.get("status", {}).get("operationState", {})
        return found

    await tenant.applications.until(
        f"{name} is {phase}, '{message}'; it is {state()}",
        lambda _: state().get("phase") == phase and state().get("message", "").startswith(message),
    )

"""``python -m tests.component.agent.composing_agent``: an agent whose Secrets are composed by a fake."""

from __future__ import annotations

import base64
import json
from typing import Any

from services.agent import bootstrap
from services.agent.credentials.check_result import CheckResult, RepositoryAccess
from services.agent.settings import AgentSettings
from services.common.kubernetes import Manifest
from services.common.messages import EngineResource, RowKind
from services.common.startup import run_service


class RecipeComposers:
    """A Secret's only content is its recipe's uid; the uid ``bad`` fails its check.

    A repository's is its URL; it opens to nobody without that login.
    """

    def __init__(self, *_: Any) -> None:
        """Needs nothing."""

    async def compose_secret(self, row: EngineResource, live: Manifest | None) -> CheckResult:
        manifest = json.loads(row.manifest)
        recipe = manifest.pop("recipe")
        uid = recipe["uid"]
        if row.kind == RowKind.REPOSITORY_SECRET:
            url = base64.b64encode(recipe["repository"].encode()).decode()
            return CheckResult(manifest | {"data": {"url": url}}, "Succeeded", "", access=RepositoryAccess.LOGIN)
        if uid == "bad":
            return CheckResult(None, "UnableToLocateContext", "no such context")
        encoded = base64.b64encode(uid.encode()).decode()
        return CheckResult(manifest | {"data": {"config": encoded}}, "Succeeded", "")

    def may_have_account(self, *_: Any) -> bool:
        return False

    async def remove_account(self, row: EngineResource, live: Manifest | None) -> None:
        """Nothing was made elsewhere."""

    async def is_public_repository(self, url: str, tenant: str) -> bool:
        return False

    async def refusal_of_repository(self, url: str, tenant: str) -> str:
        return ""


if __name__ == "__main__":
    bootstrap.CredentialChecker = RecipeComposers  # type: ignore[misc, assignment]
    run_service("agent", AgentSettings, bootstrap.start)

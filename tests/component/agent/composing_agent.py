"""``python -m tests.component.agent.composing_agent``: an agent whose Secrets are composed by a fake."""

from __future__ import annotations

import base64
import json
from typing import Any

from services.agent import bootstrap
from services.agent.credentials import Composition
from services.common.kube import Manifest
from services.common.messages import EngineResource
from services.common.startup import run


class RecipeComposers:
    """A Secret's only content is its recipe's uid; the uid ``bad`` fails its check."""

    def __init__(self, *_: Any) -> None:
        """Needs nothing."""

    async def compose(self, row: EngineResource, live: Manifest | None) -> Composition:
        manifest = json.loads(row.manifest)
        uid = manifest.pop("recipe")["uid"]
        if uid == "bad":
            return Composition(None, "UnableToLocateContext", "no such context")
        encoded = base64.b64encode(uid.encode()).decode()
        return Composition(manifest | {"data": {"config": encoded}}, "Succeeded", "")

    async def dispose(self, row: EngineResource, live: Manifest | None, *, giving_up: bool = False) -> None:
        """Nothing was made elsewhere."""


if __name__ == "__main__":
    bootstrap.Composers = RecipeComposers  # type: ignore[misc, assignment]
    run("agent", bootstrap.start)

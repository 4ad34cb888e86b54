"""What the agent asks of the package that composes Secrets. ``credentials`` has it; so has a fake of the tests."""

from __future__ import annotations

from typing import Protocol

from services.agent.credentials import Composition
from services.common.kube import Manifest
from services.common.messages import EngineResource


class Composers(Protocol):
    """Calls that may take as long as a stranger's server pleases: never awaited by the pool."""

    async def compose(self, row: EngineResource, live: Manifest | None) -> Composition:
        """Open, check and compose. Raises Permanent (not a row for this), Retry (trouble of our own)."""

    async def dispose(self, row: EngineResource, live: Manifest | None, *, giving_up: bool = False) -> None:
        """Remove what was made elsewhere for the row, also what only ``live``, the Secret that is there, knows of.

        Raises Retry while a cluster does not answer, unless ``giving_up``.
        """

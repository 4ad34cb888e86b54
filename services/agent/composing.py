"""What the agent asks of the package that tries tenants' servers. ``credentials`` has it; so has a fake of tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from services.agent.credentials import Composition
from services.common.kube import Manifest
from services.common.messages import EngineResource


class Composers(Protocol):
    """Calls that may take as long as a stranger's server pleases: never awaited by the pool."""

    async def compose(self, row: EngineResource, live: Manifest | None) -> Composition:
        """Open, check and compose. Raises Permanent (not a row for this), Retry (trouble of our own)."""

    def may_have_left(self, row: EngineResource, annotations: Mapping[str, str]) -> bool:
        """Whether anything was made elsewhere for the row, as far as it and its Secret's ``annotations`` tell.

        Raises Permanent (not a row for this).
        """

    async def dispose(self, row: EngineResource, live: Manifest | None) -> None:
        """Remove what was made elsewhere for the row, also what only ``live``, the Secret that is there, knows of.

        Raises Retry while a cluster does not answer, Permanent if it is not a row for this.
        """

    async def refusal_of_repository(self, url: str, tenant: str) -> str:
        """Why Argo CD must not be told to read ``url``, to follow the field's name; empty if it may be.

        ``tenant`` is workspace/namespace. Never raises.
        """

    async def is_public(self, url: str, tenant: str) -> bool:
        """Whether a repository is known to open without a login. Never raises."""

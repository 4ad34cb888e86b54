"""What a Secret may be used for. The watcher seals it, the agent compares it. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from services.common.json_values import canonical, digest


@dataclass(frozen=True, slots=True)
class SecretUse:
    """What a resource uses its Secret for."""

    url: str
    """The server that its content may be sent to, in one spelling."""
    terms: str = ""
    """Canonical JSON of the resource's other terms, such as that TLS is not verified."""

    @property
    def digest(self) -> str:
        """A digest that identifies the use without revealing it."""
        return digest(canonical([self.url, self.terms]))

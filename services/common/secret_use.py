"""What a Secret may be used for. The watcher seals it, the agent compares. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from services.common.json_values import canonical, digest


@dataclass(frozen=True, slots=True)
class SecretUse:
    """What a resource uses the Secret for that it names."""

    url: str
    """To where its content may be sent, in one spelling."""
    terms: str = ""
    """How: canonical JSON of what else the resource asks for there, such as that TLS is not verified."""

    @property
    def digest(self) -> str:
        """Tells uses apart without showing them."""
        return digest(canonical([self.url, self.terms]))

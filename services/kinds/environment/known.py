"""What other resources' rules know of an environment's spec: where it is, and what is promoted to it after which."""

from __future__ import annotations

from dataclasses import dataclass

from services.kinds.environment.model import AUTOMATED, EnvironmentSpec
from services.kinds.shared.resource import PlainResource
from services.kinds.shared.spec_text import projected_spec


@dataclass(frozen=True, slots=True)
class KnownEnvironment:
    """The projection."""

    claim_name: str = ""
    """Of the claim that says where it is; empty if none does."""
    target_namespace: str | None = None
    """On the cluster that its user has credentials of; None: it has none, but may have a claim."""
    parent: str = ""
    """The environment that promotions come from; empty if there is none."""
    is_automated: bool = False
    """Whether an automated promotion goes on to it, or begins here."""

    @classmethod
    def of(cls, spec: EnvironmentSpec) -> KnownEnvironment:
        """Of a whole spec."""
        namespace = spec.credentials.target_namespace if spec.credentials is not None else None
        automated = spec.deployment_strategy == AUTOMATED
        return cls(spec.claim_name, namespace, spec.parent_environment or "", automated)


def known_environment(row: PlainResource) -> KnownEnvironment | None:
    """Of the newest spec of an environment; None if it cannot be read, or there is no room for the environment."""
    return projected_spec(EnvironmentSpec, KnownEnvironment.of, row)

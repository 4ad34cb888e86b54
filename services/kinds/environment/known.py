"""What other resources' rules know of an environment: where it is, and which environment is before it."""

from __future__ import annotations

from dataclasses import dataclass

from services.kinds.environment.model import AUTOMATED, EnvironmentSpec
from services.kinds.shared.resource import PlainResource
from services.kinds.shared.spec_text import projected_spec


@dataclass(frozen=True, slots=True)
class KnownEnvironment:
    """The known part of an environment."""

    claim_name: str = ""
    """Name of the claim that says where it is; empty if none does."""
    target_namespace: str | None = None
    """Namespace on the cluster of the user's credentials; None: it has none, but may have a claim."""
    parent: str = ""
    """The environment that promotions come from; empty if there is none."""
    is_automated: bool = False
    """Whether an automated promotion continues to it, or begins here."""

    @classmethod
    def of(cls, spec: EnvironmentSpec) -> KnownEnvironment:
        """The known part of a spec."""
        namespace = spec.credentials.target_namespace if spec.credentials is not None else None
        automated = spec.deployment_strategy == AUTOMATED
        return cls(spec.claim_name, namespace, spec.parent_environment or "", automated)


def known_environment(row: PlainResource) -> KnownEnvironment | None:
    """The known part of an environment's newest spec; None if it is invalid, or exceeds the quota."""
    return projected_spec(EnvironmentSpec, KnownEnvironment.of, row)

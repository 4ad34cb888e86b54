"""What other resources' rules know of a binding: what it binds. Its configuration is for the build service."""

from __future__ import annotations

from dataclasses import dataclass

from services.kinds.shared.resource import PlainResource
from services.kinds.shared.spec_text import projected_spec
from services.kinds.snapshot_environment_binding.model import BindingSpec


@dataclass(frozen=True, slots=True)
class KnownBinding:
    """The known part of a binding."""

    application: str
    environment: str
    snapshot: str
    components: tuple[str, ...]
    """Names of the deployed components, in the order of the spec."""

    @classmethod
    def of(cls, spec: BindingSpec) -> KnownBinding:
        """The known part of a spec."""
        components = tuple(each.name for each in spec.components)
        return cls(spec.application, spec.environment, spec.snapshot, components)


def known_binding(row: PlainResource) -> KnownBinding | None:
    """The known part of a binding's newest spec; None if it is invalid, or exceeds the quota."""
    return projected_spec(BindingSpec, KnownBinding.of, row)

"""A plan as a value, and as the file in which one is kept."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from chaos.plan.faults import FAULTS, Fault, Meanwhile
from chaos.plan.operations import OPERATIONS, REFUSED_PATHS, Operation, PutDeployment

Step = Operation | Fault | Meanwhile
_TYPES: dict[str, Any] = {each.__name__: each for each in (*OPERATIONS, *FAULTS, Meanwhile)}


@dataclass(frozen=True, slots=True)
class Plan:
    """What is done, in order; operations of one tenant one after the other, those of several side by side."""

    seed: int
    steps: tuple[Step, ...]

    @property
    def operations(self) -> list[Operation]:
        """All that is not a fault."""
        return [step for step in self.steps if isinstance(step, Operation)]

    @property
    def faults(self) -> list[Fault]:
        """All that is one."""
        return [step for step in self.steps if isinstance(step, Fault)]

    @property
    def kinds(self) -> frozenset[type[Operation | Fault]]:
        """Of operations and faults."""
        return frozenset(type(step) for step in self.steps if not isinstance(step, Meanwhile))

    @property
    def tenants(self) -> list[int]:
        """Numbers of those who do anything."""
        return sorted({operation.tenant for operation in self.operations})

    @property
    def paths(self) -> list[str]:
        """Of what is deployed."""
        return sorted({step.path for step in self.steps if isinstance(step, PutDeployment)} - set(REFUSED_PATHS))

    def with_steps(self, steps: tuple[Step, ...]) -> Plan:
        """The same with these."""
        return Plan(self.seed, steps)

    def to_json(self) -> str:
        """One step a line."""
        lines = ",\n".join(json.dumps({"step": type(step).__name__} | asdict(step)) for step in self.steps)
        return f'{{"seed": {self.seed}, "steps": [\n{lines}\n]}}\n'

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """What :meth:`to_json` wrote."""
        content = json.loads(text)
        return cls(content["seed"], tuple(_step(each) for each in content["steps"]))


def _step(content: dict[str, Any]) -> Step:
    type_ = _TYPES[content.pop("step")]
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in content.items()}
    step: Step = type_(**values)
    return step

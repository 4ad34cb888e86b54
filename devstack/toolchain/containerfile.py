"""A Containerfile, read: so much of its language as ours has."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from string import Template


@dataclass(frozen=True)
class Instruction:
    """One, with its arguments as they are written."""

    name: str
    arguments: str

    def words(self) -> list[str]:
        """The arguments, of which one may be in quotes."""
        return shlex.split(self.arguments)

    def listed(self) -> list[str]:
        """Arguments that are a list of JSON."""
        found: list[str] = json.loads(self.arguments)
        return found

    def pairs(self, known: Mapping[str, str]) -> dict[str, str]:
        """Arguments that are ``name=value``; a value may have names of ``known`` after a dollar sign."""
        found = (word.partition("=") for word in self.words())
        return {name: Template(value).safe_substitute(known) for name, _, value in found}


@dataclass(frozen=True)
class Stage:
    """What comes after one ``FROM``."""

    base: str
    instructions: tuple[Instruction, ...]


def read_stages(text: str) -> dict[str, Stage]:
    """Every stage by its name."""
    stages: dict[str, Stage] = {}
    for found in re.split(r"^(?=FROM )", _joined(text), flags=re.MULTILINE)[1:]:
        first, *others = (Instruction(*line.split(" ", 1)) for line in found.splitlines() if line)
        base, _, name = first.words()
        stages[name] = Stage(base, tuple(others))
    return stages


def read_arguments(text: str) -> dict[str, str]:
    """What ``ARG`` gives a value by itself."""
    found = re.findall(r"^ARG (\w+)=(\S*)$", _joined(text), re.MULTILINE)
    return dict(found)


def lineage(stages: Mapping[str, Stage], name: str) -> Iterator[Instruction]:
    """All instructions of a stage, those of what it stands on first."""
    stage = stages[name]
    if stage.base in stages:
        yield from lineage(stages, stage.base)
    yield from stage.instructions


def _joined(text: str) -> str:
    """Each instruction in a line of its own, and nothing else."""
    lines = (line for line in text.splitlines() if not line.lstrip().startswith("#"))
    return re.sub(r"\s*\\\n\s*", " ", "\n".join(lines))

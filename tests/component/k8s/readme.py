"""The commands of a README, that of k8s/ unless another is named, to be typed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from devstack.paths import ROOT

README = (ROOT / "k8s" / "README.md").read_text()


def commands(section: str, readme: str = README) -> list[str]:
    """Of the shell blocks of a section, up to the next heading, without comments."""
    return [line.partition(" #")[0].strip() for line in blocks("sh", readme)[section]]


def blocks(language: str, readme: str = README) -> dict[str, list[str]]:
    """Lines of the code blocks in ``language``, by the heading that they are below."""
    found: dict[str, list[str]] = {}
    heading, inside = "", None
    for line in readme.splitlines():
        if line.startswith("```"):
            inside = line.removeprefix("```") if inside is None else None
        elif inside is None and line.startswith("#"):
            heading = line.lstrip("# ")
        elif inside == language:
            found.setdefault(heading, []).append(line)
    return found


def secrets_of_the_table() -> dict[str, list[str]]:
    """Keys by Secret, as the README lists them."""
    listed = r"(?:`[\w.-]+`(?:, )?)+"
    rows = re.findall(rf"^\| ({listed}) \| ({listed}) \|", README, re.MULTILINE)
    return {name: re.findall(r"`([\w.]+)`", keys) for names, keys in rows for name in re.findall(r"`([\w-]+)`", names)}


def carry_out(command: str, folder: Path, environment: Mapping[str, str], kubectl: Path) -> str:
    """In a shell, as typed; ``environment`` names the overlay, too, and may have a PATH. Returns what it prints."""
    path = f"{kubectl.parent}:{Path(sys.executable).parent}:{environment.get('PATH', os.environ['PATH'])}"
    variables = os.environ | environment | {"PATH": path}
    shell = ["/bin/sh", "-c", command]
    outcome = subprocess.run(shell, cwd=folder, env=variables, capture_output=True, text=True, check=False)
    assert outcome.returncode == 0, f"{command}: {outcome.stderr}"
    return outcome.stdout

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
    """Of the first shell block of a section, without comments."""
    text = readme.partition(f"\n## {section}\n")[2]
    block = re.search(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert block is not None
    return [line.partition(" #")[0].strip() for line in block[1].splitlines()]


def secrets_of_the_table() -> dict[str, list[str]]:
    """Keys by Secret, as the README lists them."""
    listed = r"(?:`[\w.-]+`(?:, )?)+"
    rows = re.findall(rf"^\| ({listed}) \| ({listed}) \|", README, re.MULTILINE)
    return {name: re.findall(r"`([\w.]+)`", keys) for names, keys in rows for name in re.findall(r"`([\w-]+)`", names)}


def carry_out(command: str, folder: Path, environment: Mapping[str, str], kubectl: Path) -> None:
    """In a shell, as typed; ``environment`` names the overlay, too."""
    path = f"{kubectl.parent}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    variables = os.environ | environment | {"PATH": path}
    shell = ["/bin/sh", "-c", command]
    outcome = subprocess.run(shell, cwd=folder, env=variables, capture_output=True, text=True, check=False)
    assert outcome.returncode == 0, f"{command}: {outcome.stderr}"

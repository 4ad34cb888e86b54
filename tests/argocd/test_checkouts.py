"""Whether Argo CD still shares its checkouts as we believe: a URL that it folds and we do not would pass our fence."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from devstack.paths import ROOT
from devstack.toolchain.gobuild import go_command
from tests.unit.agent.private_repositories.checkouts import KEYS

MODULE = "github.com/argoproj/argo-cd/v3"
PROGRAM = """
func main() {
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		fmt.Println(NormalizeGitURL(in.Text()))
	}
}
"""


@pytest.mark.long  # our names are in tests/unit/agent/private_repositories; Argo CD's change with its version alone
def test_checkout_when_argo_cd_itself_is_asked_then_it_is_named_as_expected(tmp_path: Path) -> None:
    folder = go("list", "-m", "-f", "{{.Dir}}", MODULE, cwd=ROOT / "toolchain" / "argocd").strip()
    source = (Path(folder) / "util" / "git" / "git.go").read_text()
    source = source.replace("package git", "package main").replace("import (", 'import ("bufio"; "os"', 1)
    (tmp_path / "main.go").write_text(source[: source.index("// TestRepo tests")] + PROGRAM)
    assert go("run", "main.go", cwd=tmp_path, said="\n".join(KEYS)).splitlines() == list(KEYS.values())


def go(*arguments: str, cwd: Path, said: str = "") -> str:
    """What a command of Go's answers."""
    asked = subprocess.run([*go_command(), *arguments], cwd=cwd, input=said, capture_output=True, text=True, check=True)
    return asked.stdout

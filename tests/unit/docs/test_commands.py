"""Every command that a page has an operator or a developer type is one that there is, with options that it has."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

import pytest
import typer
from typer.core import TyperGroup

from devstack.paths import DOCS, ROOT
from services.cli.__main__ import app

PAGES = (*sorted(DOCS.rglob("*.md")), ROOT / "README.md", ROOT / "k8s" / "README.md", ROOT / "CONTRIBUTING.md")
BLOCK = re.compile(r"^```(?:sh|bash|console)\n(.*?)^```", re.MULTILINE | re.DOTALL)
ENDS = {"|", "||", "&&", ";", ">", ">>", "2>", "<", "&", ")"}
COMMAND = typer.main.get_command(app)


def typed_lines() -> Iterator[tuple[str, str]]:
    """Page and line of each command of ours, in blocks and in the text."""
    for page in PAGES:
        text = page.read_text()
        blocks = [line for block in BLOCK.findall(text) for line in block.replace("\\\n", " ").splitlines()]
        inline = re.findall(r"`(gitopsctl [^`]+)`", BLOCK.sub("", text))
        for line in (*blocks, *inline):
            for found in re.findall(r"(?:^|[\s;(])(gitopsctl .+)", line):
                for part in re.split(r";\s+(?=gitopsctl )", found):
                    yield str(page.relative_to(ROOT)), part


def words_of(line: str) -> list[str]:
    """Of the first command in ``line``, without its name."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;<>()")
    lexer.whitespace_split = True
    words: list[str] = []
    for word in lexer:
        if word in ENDS:
            break
        words.append(word)
    return words[1:]


@pytest.mark.parametrize(("page", "line"), sorted(set(typed_lines())), ids=str)
def test_command_when_a_page_names_it_then_it_is_there_with_these_options(page: str, line: str) -> None:
    words, command = words_of(line), COMMAND
    context = command.make_context("gitopsctl", [], resilient_parsing=True)
    while isinstance(command, TyperGroup) and words and not words[0].startswith("-"):
        name, *words = words
        found = command.get_command(context, name)
        assert found is not None, f"{page}: there is no {name}"
        command, context = found, found.make_context(name, [], parent=context, resilient_parsing=True)
    context.resilient_parsing = False
    command.make_parser(context).parse_args(words)

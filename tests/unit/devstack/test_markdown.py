"""Parts of files that are generated, between two lines that say so."""

from __future__ import annotations

import pytest

from devstack.generate.markdown import with_block

TEXT = "before\n  # kinds: begin, written by `make generate`\n{body}  # kinds: end\nafter\n"


@pytest.mark.parametrize("body", ["", "old\n", "old\nolder\n"])
def test_block_when_there_is_one_then_only_what_is_in_it_is_replaced(body: str) -> None:
    assert with_block(TEXT.format(body=body), "kinds", "new\n") == TEXT.format(body="new\n")


@pytest.mark.parametrize("text", ["", "no block\n", TEXT.format(body="") * 2, TEXT.format(body="").replace("end", "")])
def test_block_when_there_is_not_exactly_one_then_nothing_is_written(text: str) -> None:
    with pytest.raises(ValueError, match="one block of kinds was expected"):
        with_block(text, "kinds", "new\n")

"""A Containerfile, read; and that ours is one that a node can take its image from."""

from __future__ import annotations

from devstack.paths import ROOT
from devstack.toolchain.containerfile import Instruction, lineage, read_arguments, read_stages
from devstack.toolchain.service_image import BUILT, CONTAINERFILE, describe, sources

TEXT = """\
# A comment.
ARG BASE=python:3
ARG EMPTY
FROM ${BASE} AS first
# Another one.
ENV PATH=/opt/bin:$PATH \\
    NAME="two words"
RUN first --step \\
    && second
FROM first AS last
USER 7
"""


def test_stages_when_lines_go_on_then_each_instruction_is_one() -> None:
    stages = read_stages(TEXT)
    assert list(stages) == ["first", "last"]
    assert [item.name for item in stages["first"].instructions] == ["ENV", "RUN"]
    assert stages["first"].instructions[1].arguments == "first --step && second"


def test_lineage_when_a_stage_stands_on_another_then_that_one_comes_first() -> None:
    assert [item.name for item in lineage(read_stages(TEXT), "last")] == ["ENV", "RUN", "USER"]


def test_pairs_when_a_value_names_another_then_it_is_put_in_its_place() -> None:
    environment = read_stages(TEXT)["first"].instructions[0].pairs({"PATH": "/bin"})
    assert environment == {"PATH": "/opt/bin:/bin", "NAME": "two words"}


def test_arguments_when_one_has_no_value_then_it_is_left_out() -> None:
    assert read_arguments(TEXT) == {"BASE": "python:3"}


def test_sources_when_something_comes_from_another_stage_then_it_is_none_of_ours() -> None:
    copied = [Instruction("COPY", "a b ./"), Instruction("COPY", "--from=other c /"), Instruction("RUN", "d")]
    assert sources(copied) == [ROOT / "a", ROOT / "b"]


def test_production_image_when_it_is_described_then_it_starts_our_modules_as_nobody_in_particular() -> None:
    image = describe(CONTAINERFILE.read_text())
    assert image.entrypoint == ["python", "-m"]
    assert image.user == "10001:10001"
    assert "PATH=/opt/venv/bin" in image.environment
    assert image.labels["org.opencontainers.image.title"] == "GitOps Service"


def test_production_image_when_it_is_made_here_then_all_that_its_stages_copy_is_there() -> None:
    copied = sources(lineage(read_stages(CONTAINERFILE.read_text()), BUILT))
    assert ROOT / "services" in copied
    assert [path for path in copied if not path.exists()] == []

"""Revisions of the database are one chain: two that came at once would leave an installation without a newest one."""

from __future__ import annotations

from alembic.config import Config
from alembic.script import ScriptDirectory

from services.common.package_data import MIGRATIONS


def test_revisions_when_read_then_each_follows_another_one_and_one_is_the_newest() -> None:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    scripts = ScriptDirectory.from_config(config)
    assert len(scripts.get_heads()) == 1
    assert [script.revision for script in scripts.walk_revisions()] == [
        f"{number:04}" for number in range(len([*scripts.walk_revisions()]), 0, -1)
    ]

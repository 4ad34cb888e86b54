"""The limits that users read about are those that the services have by default."""

from __future__ import annotations

from devstack.generate.markdown import with_block
from devstack.generate.reference import limits
from devstack.paths import USER_DOCS
from services.kinds.registry import REGISTRY


def test_limits_when_users_read_of_them_then_they_are_the_defaults() -> None:
    text = (USER_DOCS / "tenancy.md").read_text()
    assert text == with_block(text, "limits", limits(REGISTRY)), "run 'make generate'"
    assert "| GitOpsDeployments | 1000 |" in text
    assert "| one spec | 256 KiB |" in text

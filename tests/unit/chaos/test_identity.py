"""The checker's own names are the product's: written down twice, so that neither changes unnoticed."""

from __future__ import annotations

from chaos import identity
from services.planner.domain import ids


def test_names_when_the_product_makes_them_then_they_are_those_that_the_checker_expects() -> None:
    assert identity.tenant_id("team-a", "u1") == str(ids.tenant_id("local", "team-a", "u1"))
    assert identity.resource_id("u2") == str(ids.resource_id("local", "u2"))

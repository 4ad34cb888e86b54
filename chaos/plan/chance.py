"""How often something is so, and with whom. Pure: the same generator says the same."""

from __future__ import annotations

from random import Random

RESTLESS = 4
"""One in so many tenants has what leaves less to judge: of others all the more is sure."""


def one_in(random: Random, number: int) -> bool:
    """True so often."""
    return random.randrange(number) == 0


def restless(tenant: int) -> int:
    """The tenant that has this one's share of what leaves less to judge."""
    return tenant - tenant % RESTLESS

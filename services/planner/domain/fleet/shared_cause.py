"""Whether so many engine instances are ill at once that they share a cause. Pure.

The cause may be ours, such as a bad release of the agents, and what would be done for each instance alone would not
help. So remediation leaves the instances alone (``remediation/illnesses.py``), and placement goes on placing tenants on
them (``placement/placement.py``).
"""

from __future__ import annotations

MAX_ILL_SHARE = 0.3
"""Of all instances that count."""


def is_cause_shared(ill: int, counted: int) -> bool:
    """Whether ``ill`` of ``counted`` instances are too many to be ill for causes of their own; one alone never is."""
    return ill > max(1, MAX_ILL_SHARE * counted)

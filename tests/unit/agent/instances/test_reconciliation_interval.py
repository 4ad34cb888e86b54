"""In which time an Argo CD compares each Application anew."""

from __future__ import annotations

from datetime import timedelta

import pytest

from services.agent.instances.reconciliation_interval import compares_within


@pytest.mark.parametrize(
    ("config", "seconds"),
    [
        (None, None),
        ({}, 180),
        ({"timeout.reconciliation": "0s"}, None),
        ({"timeout.reconciliation": "0"}, None),
        ({"timeout.reconciliation": "3m", "timeout.reconciliation.jitter": "0s"}, 180),
        ({"timeout.reconciliation": "1h2m30s"}, 3810),
        ({"timeout.reconciliation": "often"}, None),
    ],
)
def test_interval_when_read_from_the_config_map_then_it_is_what_argocd_makes_of_it(
    config: dict[str, str] | None, seconds: int | None
) -> None:
    assert compares_within(config) == (None if seconds is None else timedelta(seconds=seconds))

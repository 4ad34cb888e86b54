"""Keys in Secrets rotate by themselves, and agents have a key before anything is sealed under it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

import pytest
from joserfc.jwk import ECKey

from services.cli.sealing.key_rotation import Rotation, Schedule, next_rotation
from services.common.errors import InvalidConfiguration
from services.common.sealing import cluster_of, key_age_seconds
from services.common.sealing.jwk_sets import CURVE

DAY = 86400.0
NOW = 1_000 * DAY
SCHEDULE = Schedule(older_than=timedelta(days=90), settled=timedelta(minutes=15))


def key(key_id: str, age: float | None, cluster: str = "") -> tuple[str, ECKey]:
    made = {} if age is None else {"iat": NOW - age}
    of_cluster = {"engine_cluster": cluster} if cluster else {}
    return key_id, ECKey.generate_key(CURVE, {"kid": key_id} | made | of_cluster)


def step(private: Mapping[str, ECKey], active: str, now: float = NOW) -> Rotation:
    """The step that is due where watchers seal with this one of the agents' keys."""
    return next_rotation(private, {active: private[active]}, now, SCHEDULE)


@pytest.mark.parametrize("age", [90 * DAY, 1000 * DAY, None])
def test_active_key_when_it_is_too_old_then_agents_get_a_new_one_and_watchers_keep_it(age: float | None) -> None:
    rotation = step(dict([key("old", age)]), "old")
    assert rotation.public is None
    assert rotation.private is not None
    assert next(iter(rotation.private)) == "old"
    assert len(rotation.private) == 2


def test_active_key_when_it_is_young_then_nothing_changes() -> None:
    rotation = step(dict([key("old", 90 * DAY - 1)]), "old")
    assert (rotation.private, rotation.public) == (None, None)


def test_new_key_when_agents_may_lack_it_then_watchers_wait() -> None:
    rotation = step(dict([key("old", 91 * DAY), key("new", 899)]), "old")
    assert (rotation.private, rotation.public) == (None, None)
    assert "new" in rotation.summary


def test_new_key_when_every_agent_has_it_then_watchers_seal_with_it() -> None:
    rotation = step(dict([key("old", 91 * DAY), key("new", 900)]), "old")
    assert rotation.private is None
    assert rotation.public is not None
    assert [*rotation.public] == ["new", "old"]


def test_calls_when_they_come_every_hour_for_a_year_then_no_key_is_active_before_agents_have_it_or_for_too_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    private, active, now = dict([key("first", 0)]), "first", NOW
    monkeypatch.setattr("services.common.sealing.jwk_sets.time.time", lambda: now)
    changes = 0
    while now < NOW + 365 * DAY:
        rotation = step(private, active, now)
        private = dict(rotation.private or private)
        if rotation.public is not None:
            active, changes = next(iter(rotation.public)), changes + 1
            assert key_age_seconds(private[active], now) >= SCHEDULE.settled.total_seconds()
        assert key_age_seconds(private[active], now) <= 90 * DAY + 2 * 3600
        now += 3600
    assert changes == 4
    assert len(private) == 5


def test_keys_when_they_are_an_engine_clusters_then_those_of_other_clusters_stay_and_the_new_one_is_its_own() -> None:
    private = dict([key("old", 91 * DAY, "north")])
    public = dict([key("south", 1000 * DAY, "south"), *private.items()])
    rotation = next_rotation(private, public, NOW, SCHEDULE)
    assert rotation.private is not None
    assert {cluster_of(each) for each in rotation.private.values()} == {"north"}
    private |= dict([key("new", 900, "north")])
    rotation = next_rotation(private, public, NOW, SCHEDULE)
    assert rotation.public is not None
    assert [*rotation.public] == ["new", "old", "south"]


def test_keys_when_agents_lack_the_one_that_watchers_seal_with_then_that_is_refused() -> None:
    public = dict([key("south", 0, "south"), key("north", 0, "north")])
    with pytest.raises(InvalidConfiguration, match="lacks north"):
        next_rotation(dict([key("other", 0, "north")]), public, NOW, SCHEDULE)
    with pytest.raises(InvalidConfiguration, match="no key of engine cluster east"):
        next_rotation(dict([key("other", 0, "east")]), public, NOW, SCHEDULE)

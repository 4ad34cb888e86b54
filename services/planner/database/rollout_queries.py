"""Reads rollouts, and the samples of instances that they are judged by; forgets what is old of both."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from psycopg import Connection

from services.planner.database.columns import names
from services.planner.database.remedy_queries import IS_DOWN
from services.planner.domain.fleet.rollouts.rollout_rows import EngineSample, Figures, Rollout

PAST = timedelta(hours=1)
"""Of a ring's old instances: so long before the first tenant moves."""
UNDER_WAY = "step NOT IN ('done', 'failed', 'aborted')"
NEWEST = f"SELECT {names(Rollout)} FROM rollouts ORDER BY ordered_at DESC LIMIT 1"
# Of each release and ring the newest rollout counts, whatever else is rolled out since.
UNTRIED = f"""
SELECT version, profile, ring
  FROM (SELECT DISTINCT ON (r.version, r.profile, turn.ring) r.version, r.profile, turn.ring,
               r.step <> 'done' AND turn.number > coalesce(array_position(string_to_array(r.rings, ','), r.ring), 0)
                                                  - (NOT {UNDER_WAY} AND r.stage < 100)::int AS is_untried
          FROM rollouts r, unnest(string_to_array(r.rings, ',')) WITH ORDINALITY AS turn(ring, number)
         ORDER BY r.version, r.profile, turn.ring, r.ordered_at DESC) AS newest
 WHERE is_untried
"""
"""Releases with rings that these have not come to, were given up before, or have gone back from."""


def _release_in_ring(instance: str) -> str:
    version = f"coalesce(nullif({instance}.version, ''), {instance}.wanted_version, '')"
    return f"({version}, coalesce({instance}.profile, ''), {instance}.ring)"


def _is_out_of_turn(instance: str) -> str:
    """New tenants of a ring come to its old instances until the last stage, and to its new ones from then on.

    Unless it goes back (``Rollout.is_on_new``).
    """
    return f"""
(({_release_in_ring(instance)} IN (SELECT version, profile, ring FROM rollouts WHERE {UNDER_WAY}))
 <> ({instance}.ring IN (SELECT ring FROM rollouts WHERE {UNDER_WAY} AND stage = 100 AND step <> 'reverting')))"""


def _is_untried(instance: str) -> str:
    return f"{_release_in_ring(instance)} IN ({UNTRIED})"


# What is untried takes no tenant while others do: no gate has let it in. Rollouts are read once for all instances, and
# so need no index.
IS_CLOSED = f"""(
{_is_out_of_turn("engine_instances")} OR {_is_untried("engine_instances")} AND EXISTS (
    SELECT FROM engine_instances o
     WHERE (o.ring, o.engine_cluster, o.engine, o.engine_class, o.dedicated_to)
         = (engine_instances.ring, engine_instances.engine_cluster, engine_instances.engine,
            engine_instances.engine_class, engine_instances.dedicated_to)
       AND o.state = 'accepting' AND NOT {IS_DOWN} AND NOT {_is_out_of_turn("o")} AND NOT {_is_untried("o")}
))"""
"""Of a row of ``engine_instances``: a rollout has no new tenant placed on it, and nobody but itself brings others."""
CLOSED = f"SELECT id FROM engine_instances WHERE state <> 'retired' AND {IS_CLOSED}"
ROLLOUT = f"SELECT {names(Rollout)} FROM rollouts WHERE {UNDER_WAY} ORDER BY ordered_at LIMIT 1"
FIGURES = """
SELECT engine_instance_id, count(*), sum(applications)::int8, sum(late)::int8, sum(failed_syncs)::int8,
       sum(comparison_errors)::int8, percentile_disc(0.5) WITHIN GROUP (ORDER BY comparison_p95_ms),
       percentile_disc(0.5) WITHIN GROUP (ORDER BY sync_p95_ms), sum(tenants)::int8, sum(failing_tenants)::int8
  FROM engine_samples
 WHERE engine_instance_id = ANY(ARRAY(SELECT id FROM engine_instances WHERE ring = %s)) AND sampled_at > %s
 GROUP BY engine_instance_id
"""
SAMPLE = f"SELECT {names(EngineSample)} FROM engine_samples WHERE (engine_instance_id, sampled_at) = (%s, %s)"
NEWEST_SAMPLE = "SELECT max(sampled_at) FROM engine_samples"
IS_ROLLOUT_DUE = f"SELECT EXISTS (SELECT FROM rollouts WHERE {UNDER_WAY} AND due_at <= %s)"
PRUNE_ROLLOUTS = f"DELETE FROM rollouts WHERE NOT ({UNDER_WAY}) AND step_since < %s"
PRUNE_SAMPLES = """
DELETE FROM engine_samples
 WHERE (engine_instance_id, sampled_at) IN (SELECT engine_instance_id, sampled_at FROM engine_samples
                                             WHERE sampled_at < %s ORDER BY sampled_at LIMIT %s)
"""


def load_rollout(connection: Connection[Any]) -> Rollout | None:
    """The one that is under way."""
    row = connection.execute(ROLLOUT).fetchone()
    return None if row is None else Rollout(*row)


def load_newest_rollout(connection: Connection[Any]) -> Rollout | None:
    """Whether it is under way or not."""
    row = connection.execute(NEWEST).fetchone()
    return None if row is None else Rollout(*row)


def load_rollout_news(connection: Connection[Any], now: datetime) -> Rollout | None:
    """The newest rollout; None once it has been over for so long that only ``rollout status`` shows it."""
    newest = load_newest_rollout(connection)
    return newest if newest is not None and newest.is_news(now) else None


def load_closed(connection: Connection[Any]) -> frozenset[str]:
    """Ids of the instances that a rollout keeps tenants from, whatever state they are in."""
    return frozenset(instance for (instance,) in connection.execute(CLOSED).fetchall())


def load_figures(connection: Connection[Any], rollout: Rollout) -> dict[str, Figures]:
    """By instance of its ring: since the step began, or until the first tenant moves, of the last hour."""
    since = _past_since(connection, rollout) if rollout.step == "provisioning" else rollout.step_since
    return {instance: Figures(*counted) for instance, *counted in connection.execute(FIGURES, (rollout.ring, since))}


def load_sample(connection: Connection[Any], instance: str, sampled_at: datetime) -> EngineSample | None:
    """What an agent counted on an instance at that time; None if it did not."""
    row = connection.execute(SAMPLE, (instance, sampled_at)).fetchone()
    return None if row is None else EngineSample(*row)


def _past_since(connection: Connection[Any], rollout: Rollout) -> datetime:
    """When the hour begins: new instances may be waited for a day, and what was so at its beginning is no baseline.

    It ends with the newest sample of the fleet: by the brokers' clock, as all of them.
    """
    ((newest,),) = connection.execute(NEWEST_SAMPLE).fetchall()
    return max(rollout.step_since, newest or rollout.step_since) - PAST


def rollout_states(connection: Connection[Any], now: datetime) -> dict[str, int]:
    """1 for what the newest rollout is if it is under way, or ended of late; 0 for all else."""
    newest = load_rollout_news(connection, now)
    states = dict.fromkeys(("running", "stalled", "paused", "reverting", "done", "failed", "aborted"), 0)
    if newest is not None:
        states["stalled" if newest.is_stalled(now) else shown_state(newest)] = 1
    return states


def shown_state(rollout: Rollout) -> str:
    """In one word."""
    if rollout.is_paused:
        return "paused"
    return rollout.step if rollout.is_over or rollout.step == "reverting" else "running"


def is_rollout_due(connection: Connection[Any], now: datetime) -> bool:
    """Whether the rollout is to be looked at."""
    row = connection.execute(IS_ROLLOUT_DUE, (now,)).fetchone()
    return row is not None and row[0]


def delete_rollouts(connection: Connection[Any], before: datetime) -> int:
    """Delete rows of rollouts that were over before ``before``; returns how many."""
    return connection.execute(PRUNE_ROLLOUTS, (before,)).rowcount


def delete_samples(connection: Connection[Any], before: datetime, limit: int) -> int:
    """Delete up to ``limit`` samples of before ``before``; returns how many."""
    return connection.execute(PRUNE_SAMPLES, (before, limit)).rowcount

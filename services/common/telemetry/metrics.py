"""Every metric of every service. Names, labels and units are an interface: dashboards and alerts depend on them.

A service imports the ones it moves; all share one process-wide registry, as Prometheus clients do.
"""

from __future__ import annotations

from enum import StrEnum

from prometheus_client import Counter, Gauge, Histogram

from services.common.errors import Permanent, Poison, Retry, Wait

LATENCY = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
SIZES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000)

END_TO_END = Histogram(
    "gitops_end_to_end_seconds",
    "From the watcher's first sight of a CR change to the end of a stage (applied, status, object).",
    ["stage", "kind"],
    buckets=LATENCY,
)
HOP = Histogram(
    "gitops_hop_seconds",
    "Time from a message's timestamp to its being taken up by this service.",
    ["service", "topic"],
    buckets=LATENCY,
)
LAG = Gauge(
    "gitops_consumer_lag_messages", "Messages of a partition not acknowledged yet.", ["service", "topic", "partition"]
)
MESSAGES = Counter("gitops_messages_total", "Messages received or sent.", ["service", "topic", "direction"])
BATCH_SIZE = Histogram("gitops_batch_size_messages", "Messages per batch.", ["service"], buckets=SIZES)
BATCH_SECONDS = Histogram("gitops_batch_seconds", "Time of one step of a batch.", ["service", "step"], buckets=LATENCY)
ERRORS = Counter("gitops_errors_total", "Failures by what is done about them.", ["service", "type", "operation"])
MESSAGES_MISSED = Counter(
    "gitops_messages_missed_total",
    "Messages that retention took away before they were consumed.",
    ["service", "topic"],
)
LOGS_MADE_ANEW = Counter(
    "gitops_logs_made_anew_total",
    "Partitions of a topic that is another one than that which was consumed before, or was put back.",
    ["service", "topic"],
)
DEAD_LETTERS = Counter("gitops_dead_letters_total", "Messages given up.", ["service", "topic"])
CONSUMER_STOPPED = Gauge(
    "gitops_consumer_stopped",
    "1 while a consumer stands still, because the messages of too many tenants would become dead letters; rows: of a "
    "watcher, what it consumes: status, object.",
    ["service", "rows"],
)

WATCH_EVENTS = Counter("gitops_watch_events_total", "Events of Kubernetes watches.", ["service", "kind", "type"])
WATCH_RELISTS = Counter("gitops_watch_relists_total", "Complete lists, the first included.", ["service", "kind"])
API_SERVER_RESTORES = Counter(
    "gitops_api_server_restores_total",
    "Times that an API server was behind what it had shown of a workspace's kind: it was restored from a backup.",
    ["service", "workspace", "kind"],
)
COMPLETE_EPOCH_AGE = Gauge(
    "gitops_complete_epoch_age_seconds",
    "Since the newest complete list of a workspace's kind began that a planner consumed; infinite if there is none.",
    ["service", "workspace", "kind"],
)
RESOURCES = Gauge("gitops_resources", "Resources known to this service.", ["service", "kind"])
CHANGES_COLLAPSED = Counter(
    "gitops_changes_collapsed_total", "Changes that a later one replaced while they waited to be sent.", ["kind"]
)
HELD_BACK = Histogram(
    "gitops_held_back_seconds",
    "How long changes waited because their tenant was beyond its rate limit.",
    ["kind"],
    buckets=LATENCY,
)
TENANTS_HELD_BACK = Gauge("gitops_tenants_held_back", "Tenants that are beyond their rate limit now.", ["kind"])
LEADER = Gauge("gitops_leader", "1 while this process is the one that leads.", ["service"])
KUBERNETES_WRITES = Counter(
    "gitops_kubernetes_writes_total",
    "Calls that change objects, and those found unnecessary.",
    ["service", "kind", "verb"],
)
DRIFT_REPAIRS = Counter("gitops_drift_repairs_total", "Foreign changes undone.", ["service", "kind"])
FORCED_DELETIONS = Counter(
    "gitops_forced_deletions_total", "Deletions that the engine did not finish in time.", ["service", "kind"]
)
LEFT_BEHIND = Gauge(
    "gitops_resources_left_behind",
    "Resources that forced deletions of the last seven days may have left behind, and that nothing has taken over.",
    ["service"],
)
ROWS_WRITTEN = Counter("gitops_rows_written_total", "Rows that a batch changed.", ["table"])
TENANTS_PARKED = Gauge(
    "gitops_tenants_parked",
    "Tenants on which a rule of ours failed, or that have no instance: what happens to them is kept until they can be "
    "planned.",
    ["service"],
)
SWEEPS_REFUSED = Gauge(
    "gitops_sweeps_refused",
    "Resyncs that would have removed too much, by kind and partition: they wait for an operator, or for a better list.",
    ["service"],
)
SWEEP_PARTS = Gauge(
    "gitops_sweep_parts",
    "Parts of what complete lists did not show that are still to be removed, a part in a transaction.",
    ["service"],
)
RESOURCES_SWEPT = Counter(
    "gitops_resources_swept_total",
    "Resources that a complete list did not show, and that were taken for deleted.",
    ["service", "kind"],
)
ORPHANS_KEPT = Gauge(
    "gitops_orphans_kept",
    "Objects of engine instances that no row desires, and so many that agents keep them: they wait for an operator.",
    ["service"],
)
STREAM_UNCONFIRMED = Gauge(
    "gitops_stream_unconfirmed_bytes",
    "Of the write-ahead log that the connector has not confirmed; infinite if its replication slot is lost.",
    ["service"],
)
REBUILD_AGE = Gauge(
    "gitops_rebuild_age_seconds",
    "Since the rebuild of the database began that nobody has ended; 0 if there is none. No pool grows meanwhile.",
    ["service"],
)
TENANTS_IN_MEMORY = Gauge("gitops_tenants_in_memory_bytes", "Tenants that need not be read, estimated.", ["service"])
NAME_COLLISIONS = Counter(
    "gitops_name_collisions_total", "Objects that were not written, because another tenant has their name.", ["kind"]
)
CHECKS = Counter("gitops_checks_total", "Checks of tenants' credentials, by outcome.", ["kind", "reason"])
ENGINE_PENDING = Gauge("gitops_engine_pending_resources", "Resources not yet as desired.", ["instance"])
ENGINE_UNMET_REQUIREMENTS = Gauge(
    "gitops_engine_unmet_requirements",
    "Settings of an Argo CD that are not as tenancy needs them; the agent's log names each.",
    ["instance"],
)
SEALING_KEY_AGE = Gauge(
    "gitops_sealing_key_age_seconds",
    "Since the oldest key that seals Secrets was made; infinite if it does not say when. Rotate it.",
    ["service"],
)
REGISTRY_TOKEN_EXPIRATION = Gauge(
    "gitops_registry_token_expiration_timestamp_seconds",
    "When our token for the schema registry expires, since the epoch; not there if it has no end. Renew it before.",
    ["service"],
)
REGISTRY_LOST = Gauge(
    "gitops_registry_lost",
    "1 while the schema registry does not have our schemas under the ids that it gave them, or does not answer.",
    ["service"],
)
ENGINE_UNREACHABLE = Gauge(
    "gitops_engine_unreachable",
    "1 while an agent cannot look at an Argo CD: its namespace or its cluster is gone, does not answer or is closed.",
    ["instance"],
)
ENGINE_REFUSED = Gauge(
    "gitops_engine_refused",
    "1 while an agent deploys nothing new by an Argo CD, for want of fixes and of what makes up for them.",
    ["instance"],
)
INSTALLATIONS_FAILED = Gauge(
    "gitops_engine_installation_failed",
    "1 while a provisioner cannot make an installation; engines show says why.",
    ["instance"],
)
MANIFESTS_HELD = Gauge(
    "gitops_engine_manifests_held_seconds",
    "How long instances have waited for manifests that have changed since the last one got them; 0: none waits.",
)
INSTANCE_UNREADY = Gauge(
    "gitops_engine_unready",
    "1 for an engine instance that has never been ready for tenants, 2 once it should have been: engines show.",
    ["instance"],
)
POOL_IN_WANT = Gauge(
    "gitops_engine_pool_in_want",
    "1 while something keeps a pool from the instances that it needs; engines pool list says what.",
    ["cluster", "ring"],
)
INSTANCE_OVERLOADED = Gauge(
    "gitops_engine_overloaded",
    "1 for an Argo CD that carries more than 85 % of its capacity; engines show says what keeps tenants on it.",
    ["instance"],
)
ENGINE_HEALTH = Gauge(
    "gitops_engine_health",
    "How an Argo CD is by its agent's judgement: 0 healthy, 1 degraded, 2 down; the agent's log says why.",
    ["instance"],
)
ENGINE_HEARTBEAT_SILENCE = Gauge(
    "gitops_engine_heartbeat_silence_seconds",
    "Since an Argo CD was asked for a comparison of the heartbeat Application that has not come yet.",
    ["instance"],
)
ENGINE_CERTIFICATE_EXPIRATION = Gauge(
    "gitops_engine_certificate_expiration_timestamp_seconds",
    "When a certificate expires on which an Argo CD depends, since the epoch: its API server's, or its repo server's.",
    ["instance", "certificate"],
)
ENGINE_INSTANCES = Gauge(
    "gitops_engine_instances",
    "Engine instances that are not retired, by what is known of their health; Unknown if no agent says anything.",
    ["health"],
)
ENGINE_REMEDIATIONS = Gauge(
    "gitops_engine_remediations",
    "Engine instances that are ill, or were, by what is done for them: waiting; held, as too many are ill at once; "
    "acting; recovering; exhausted, as nothing is left that helps.",
    ["state"],
)
MOVE_AGE = Gauge(
    "gitops_move_age_seconds",
    "How long a move of a tenant has been at a step, of the one that has been there longest; 0 if there is none.",
    ["step"],
)
MOVES_GIVING_WAY = Gauge(
    "gitops_moves_giving_way",
    "1 while fewer tenants are moved at a time, because changes of others wait; of the planner that decides on it.",
)
TENANTS_LEFT = Gauge(
    "gitops_engine_tenants_left",
    "Tenants on an engine instance that drains, which no move takes from there; none if there are none.",
    ["instance"],
)
ROLLOUTS = Gauge(
    "gitops_rollouts",
    "1 for what the newest rollout of a version is: running; stalled, as nothing has got on for an hour; paused; "
    "reverting; done, failed or aborted for a day.",
    ["state"],
)
READY = Gauge(
    "gitops_ready",
    "1 while the process does its work; workspace: of a watcher, the one that it serves.",
    ["service", "workspace"],
)


class Direction(StrEnum):
    """Which way a message went, as the label ``direction`` of gitops_messages_total says it."""

    RECEIVED = "received"
    SENT = "sent"


class Failure(StrEnum):
    """What is done about a failure, as the label ``type`` of gitops_errors_total says it."""

    RETRY = "retry"
    """It is tried again, with backoff."""
    WAIT = "wait"
    """It is looked at again when something else has happened."""
    PERMANENT = "permanent"
    """A user or an operator reads of it; nothing is retried."""
    POISON = "poison"
    """The message becomes a dead letter."""
    REFUSED = "refused"
    """It is not done, because it would do too much: a resync that removes most of what there is."""
    FENCED = "fenced"
    """It is another process's by now, and left to that one."""
    DEFECT = "defect"
    """A fault of ours."""


_FAILURES: dict[type[Exception], Failure] = {
    Retry: Failure.RETRY,
    Wait: Failure.WAIT,
    Permanent: Failure.PERMANENT,
    Poison: Failure.POISON,
}


def failure_of(error: Exception) -> Failure:
    """The decision that an error's type is; whatever was not raised on purpose is a defect."""
    return next((failure for kind, failure in _FAILURES.items() if isinstance(error, kind)), Failure.DEFECT)


def count_failure(service: str, failure: Failure | Exception, operation: str) -> None:
    """Count a failure of ``operation`` by what is done about it."""
    kind = failure if isinstance(failure, Failure) else failure_of(failure)
    ERRORS.labels(service, kind, operation).inc()


def count_messages(service: str, topic: str, direction: Direction, count: int = 1) -> None:
    """Count messages."""
    MESSAGES.labels(service, topic, direction).inc(count)

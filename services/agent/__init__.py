"""The engine edge: reconciles the objects of engine instances with compiled rows, and reports effects and statuses.

The life of a row: ``message_handler`` (decode, store in the desired state) → ``instance`` (newest row per object) →
``enqueuer`` and the work queue (tenants in turn, waves within a tenant) → ``instance_workers`` (bounded, paused while
the API server is away) → ``reconciler`` (``object_steps`` decides the next call) → ``outcome_reporter`` (observation
delivered) → ``pending_acks`` (the offset is acknowledged).
"""

SERVICE = "agent"
"""Our name in logs, metrics and dead letters."""

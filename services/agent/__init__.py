"""The engine edge: reconciles the objects of engine instances with compiled rows, and reports what it did and saw.

The life of a row: ``message_handler`` (decode, keep in the desired state) → ``instance`` (newest row per object) →
``enqueuer`` and the work queue (tenants in turn, waves within one) → ``instance_workers`` (bounded, paused while the
API server is away) → ``reconciler`` (``object_steps`` says the next call) → ``outcome_reporter`` (observation
delivered) → ``pending_acks`` (the offset is acknowledged).
"""

SERVICE = "agent"
"""Our name in logs, metrics and dead letters."""

"""The engine edge: makes engine instances hold what the compiled rows say, and reports what it did and saw.

The life of a row: ``intake`` (decode, keep in the desired state) → ``instance`` (newest row per object) →
``work_queue`` (lanes and waves) → ``pool`` (bounded, parks) → ``reconciler`` (``plan`` decides, the cluster acts) →
``reports`` (observation delivered) → ``acknowledgement`` (offset may be committed).
"""

SERVICE = "agent"
"""Our name in logs, metrics and dead letters."""

"""Logs, metrics, traces and probes, the same for every service."""

from services.common.telemetry.logging import configure_logging
from services.common.telemetry.probes import Heartbeat, Probes
from services.common.telemetry.trace import TRACEPARENT, new_traceparent, trace_id, traceparent

__all__ = ["TRACEPARENT", "Heartbeat", "Probes", "configure_logging", "new_traceparent", "trace_id", "traceparent"]

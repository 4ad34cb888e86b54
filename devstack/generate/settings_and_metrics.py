"""Pages for operators: every setting and every metric, from the code that has them. `make generate` writes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from typing import Any, Literal, get_args, get_origin

from prometheus_client.metrics import MetricWrapperBase
from pydantic import SecretStr
from pydantic.fields import FieldInfo
from pydantic_core import to_jsonable_python
from pydantic_settings import BaseSettings

from devstack.generate.markdown import Row, code, table
from services.agent.provisioning.settings import ProvisionerSettings
from services.agent.settings import AgentSettings, EngineClusterSettings
from services.cli.installation.connect import ConnectorSettings, ConnectSettings
from services.common.addresses import AddressPolicy
from services.common.api_resource import GroupKind
from services.common.settings import ServiceSettings
from services.common.telemetry import metrics
from services.planner.settings import PlannerSettings
from services.watcher.settings import WatcherSettings

SETTINGS: dict[str, type[BaseSettings]] = {
    "Watcher, planner, agent and provisioner": ServiceSettings,
    "Watcher": WatcherSettings,
    "Planner": PlannerSettings,
    "Agent and provisioner": EngineClusterSettings,
    "Agent": AgentSettings,
    "Provisioner": ProvisionerSettings,
    "Connector keeper": ConnectSettings,
    "`gitopsctl connector apply`": ConnectorSettings,
}
"""What each section is about. A setting that one of these has from another is shown with that other alone."""

ABOUT_SETTINGS = """\
Each is an environment variable, read once, when a process starts; a wrong value ends it with exit code 2 and a line
that names the variable. Durations that are not in seconds are ISO 8601. What an operator has to decide is explained in
[operations](operations/README.md). Commands of `gitopsctl` have options instead; `--help` names the variable of each
that has one. Those that speak to the brokers (`topics`, `dlq`, `resync`, `replay`, `look-again`, `keys reseal`) take
the `KAFKA_…` variables below, too; those that speak to the registry (`schemas apply`, and the same but `topics`) take
`SCHEMA_REGISTRY_…`, `replay at` what of the planner's says what tenants may have, and `connector` what the connector
keeper does."""

ABOUT_METRICS = """\
On `/metrics` of each service, beside those that the Prometheus client has of every process (`process_`, `python_`). No
label holds what is a tenant's. What to look at first: [operations](operations/monitoring.md)."""

BOUNDS = {"ge": "at least", "gt": "more than", "le": "at most"}


def settings_page() -> str:
    """Every setting of every service, in Markdown."""
    parts = [
        "<!-- Generated from the services' settings.py by `make generate`; do not edit. -->",
        "# Settings",
        ABOUT_SETTINGS,
    ]
    for title, settings in SETTINGS.items():
        parts += [f"## {title}", _settings(_own(settings))]
    return "\n\n".join(parts) + "\n"


def metrics_page() -> str:
    """Every metric, in Markdown."""
    parts = [
        "<!-- Generated from services/common/telemetry/metrics.py by `make generate`; do not edit. -->",
        "# Metrics",
        ABOUT_METRICS,
        table(("Metric", "Type", "Labels", "Meaning"), _metrics()),
    ]
    return "\n\n".join(parts) + "\n"


def _own(settings: type[BaseSettings]) -> dict[str, FieldInfo]:
    """The fields that no other of :data:`SETTINGS` gave it."""
    others = [each for each in SETTINGS.values() if each is not settings and issubclass(settings, each)]
    inherited = {name for each in others for name in each.model_fields}
    return {name: field for name, field in settings.model_fields.items() if name not in inherited}


def _settings(fields: dict[str, FieldInfo]) -> str:
    rows = [
        (code(name.upper()), _default(field), _values(field), field.description or "") for name, field in fields.items()
    ]
    return table(("Variable", "Default", "Values", "Meaning"), rows)


WRITERS: dict[type, Callable[[Any], str]] = {
    type(None): lambda _: "",
    SecretStr: lambda _: "",
    bool: lambda flag: str(flag).lower(),
    timedelta: to_jsonable_python,
    dict: lambda pairs: ",".join(f"{name}={_written(value)}" for name, value in pairs.items()),
    frozenset: lambda items: ",".join(sorted(map(_written, items))),
    AddressPolicy: lambda policy: ",".join(map(str, policy.allowed)),
    GroupKind: lambda kind: f"{kind.group}/{kind.kind}".removeprefix("/"),
}
"""How values are written that are not written as Python does."""


def _default(field: FieldInfo) -> str:
    """As it would be written; empty for nothing, and for secrets whatever they are."""
    if field.is_required():
        return "required"
    text = _written(field.get_default(call_default_factory=True))
    return code(text) if text else ""


def _written(value: object) -> str:
    writer = next((writer for kind, writer in WRITERS.items() if isinstance(value, kind)), str)
    return writer(value)


def _values(field: FieldInfo) -> str:
    """Which are taken, where that can be said in a few words."""
    if get_origin(field.annotation) is Literal:
        return ", ".join(code(str(value)) for value in get_args(field.annotation))
    return ", ".join(_bounds(field.metadata))


def _bounds(constraints: Iterable[Any]) -> Iterator[str]:
    for constraint in constraints:
        for name, words in BOUNDS.items():
            limit = getattr(constraint, name, None)
            if limit is not None:
                yield f"{words} {_written(limit)}"


def _metrics() -> Iterator[Row]:
    for metric in vars(metrics).values():
        if isinstance(metric, MetricWrapperBase):
            (described,) = metric.describe()
            name = f"{described.name}_total" if described.type == "counter" else described.name
            labels = ", ".join(code(label) for label in metric._labelnames)  # the client tells them in no other way
            yield (code(name), described.type, labels, described.documentation)

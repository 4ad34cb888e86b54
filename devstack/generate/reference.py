"""Reference pages for users, from what the API server enforces and what services say. `make generate` writes them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from devstack.generate.markdown import Row, code, table
from services.common.api_resource import SECRET
from services.kinds.registry import Registry
from services.kinds.shared.catalogue import Entry
from services.kinds.shared.definition import Schema, structural
from services.kinds.shared.kind import AGE, CATEGORY, Column, DefinedKind, Kind
from services.kinds.shared.limits import DEFAULT_BYTES, DEFAULT_DESTINATIONS, MEBIBYTE
from services.watcher.settings import WatcherSettings

FIELD_HEADINGS = ("Field", "Type", "Required", "Default", "Limit", "Description")
STATUS_HEADINGS = ("Field", "Type", "Description")
CONDITION_HEADINGS = ("Type", "Status", "Reason", "Message", "What it means", "What to do")
COLUMN_HEADINGS = ("Column", "From", "Shown")

KIBIBYTE = 1024

_RULES = "x-kubernetes-validations"
_INT_OR_STRING = "x-kubernetes-int-or-string"


def page(kind: DefinedKind) -> str:
    """The whole page of ``kind``, in Markdown."""
    spec = structural(kind.spec)
    parts = [
        "<!-- Generated from services/kinds by `make generate`; do not edit. -->",
        f"# {kind.name}",
        kind.description,
        *_standing(kind),
        f"`apiVersion: {kind.resource.api_version}`, `kubectl get {kind.plural}`. [All kinds](README.md)",
        "## Example",
        f"```yaml\n{kind.example.read_text().strip()}\n```",
        "## Fields",
        table(FIELD_HEADINGS, _spec_rows(spec, "spec", required=True)),
        "## What is refused",
        "The API server refuses an object that breaks a limit above, or one of these rules. What was stored before a "
        "rule existed stays usable; a field that breaks it can only be changed to one that does not.",
        table(
            ("Field", "Message"), [*((code("metadata"), rule["message"]) for rule in kind.rules), *_rules(spec, "spec")]
        ),
        *_status(kind),
        f"## What `kubectl get {kind.plural}` shows",
        *_names(kind),
        table(COLUMN_HEADINGS, [_column(column) for column in (*kind.columns, AGE)]),
        *_waits(kind),
        *_conditions(kind),
    ]
    return "\n\n".join(parts) + "\n"


def _standing(kind: DefinedKind) -> list[str]:
    """What its readers must know before they write one."""
    return ["It belongs to no namespace: your operators write it."] if kind.scope == "Cluster" else []


def _status(kind: DefinedKind) -> list[str]:
    if kind.status is None:
        return ["## Status", "It has none."]
    return ["## Status", table(STATUS_HEADINGS, _status_rows(structural(kind.status), "status"))]


def _conditions(kind: DefinedKind) -> list[str]:
    if not kind.catalogue:
        return []
    rows = [_condition(entry) for entry in kind.catalogue]
    return ["## Conditions", "Parts in braces differ from case to case.", table(CONDITION_HEADINGS, rows)]


def _names(kind: DefinedKind) -> list[str]:
    """Shorter ways to ask for it."""
    names = [code(name) for name in kind.short_names]
    short = f"{' and '.join(names)} {'is' if len(names) == 1 else 'are'} short for `{kind.plural}`" if names else ""
    listed = f"`kubectl get {CATEGORY}` lists the resources of all kinds" if kind.scope == "Namespaced" else ""
    return [f"{'; '.join(filter(None, (short, listed)))}."] if short or listed else []


def _column(column: Column) -> Row:
    return (column.heading, code(column.path), "with `-o wide`" if column.is_wide else "always")


def _waits(kind: DefinedKind) -> list[str]:
    if not kind.waits:
        return []
    wait_for = f"kubectl wait {kind.name.lower()}/NAME"
    commands = [f"# until {wait.until}\n{wait_for} --for={wait.flag} --timeout={wait.minutes}m" for wait in kind.waits]
    return [
        "## Waiting for it",
        "```sh\n" + "\n".join(commands) + "\n```",
        "Scripts: [what to know about waiting](README.md#waiting-in-scripts).",
    ]


def index(registry: Registry) -> str:
    """The list of all kinds, in Markdown."""
    return table(("kind", "what it is for"), [_indexed(kind) for kind in registry.defined]) + "\n"


def _indexed(kind: DefinedKind) -> Row:
    return (f"[{kind.name}]({kind.page}.md)", kind.purpose)


def foreign_index(registry: Registry) -> str:
    """The list of all kinds of other services that are read, in Markdown."""
    rows = [(kind.name, f"`{kind.resource.api_version}`", kind.purpose) for kind in registry.foreign]
    return table(("kind", "API", "what it is, and what of it counts"), rows) + "\n"


def limits(registry: Registry) -> str:
    """What a namespace may have unless operators say otherwise, in Markdown."""
    rows = [(_counted(kind), str(kind.default_quota)) for kind in registry.kinds]
    rows += [
        ("namespaces that all environments list together", str(DEFAULT_DESTINATIONS)),
        ("all specs and Secrets together", f"{DEFAULT_BYTES // MEBIBYTE} MiB"),
        ("one spec", f"{_default('max_spec_bytes') // KIBIBYTE} KiB"),
        ("one Secret", f"{_default('max_secret_bytes') // KIBIBYTE} KiB"),
        ("changes, in the long run", f"{_default('tenant_changes_per_second')} per second"),
        ("changes, at once", str(_default("tenant_change_burst"))),
    ]
    return table(("limit, per namespace", "default"), rows) + "\n"


def _counted(kind: Kind) -> str:
    which = "of the types above" if kind.resource == SECRET else kind.counted
    return f"{kind.name}s {which}".strip()


def _default(setting: str) -> Any:
    return WatcherSettings.model_fields[setting].default


def _spec_rows(schema: Schema, path: str, *, required: bool) -> Iterator[Row]:
    """One row for the node and one for each below it, depth first."""
    default = code(_json(schema["default"])) if "default" in schema else ""
    described = schema.get("description", "")
    yield (code(path), _type(schema), "yes" if required else "no", default, _limit(schema), described)
    content, below = (schema["items"], f"{path}[]") if "items" in schema else (schema, path)
    needed = content.get("required", ())
    for name, member in content.get("properties", {}).items():
        yield from _spec_rows(member, f"{below}.{name}", required=name in needed)


def _status_rows(schema: Schema, path: str) -> Iterator[Row]:
    for name, member in schema.get("properties", {}).items():
        below = f"{path}.{name}"
        content = member.get("items", member)
        yield (code(below), _type(member), member.get("description") or content.get("description", ""))
        yield from _status_rows(content, f"{below}[]" if "items" in member else below)


def _rules(schema: Schema, path: str) -> Iterator[Row]:
    for rule in schema.get(_RULES, ()):
        yield (code(path), rule["message"])
    if "items" in schema:
        yield from _rules(schema["items"], f"{path}[]")
    for name, member in schema.get("properties", {}).items():
        yield from _rules(member, f"{path}.{name}")


def _condition(entry: Entry) -> Row:
    shown = (entry.type, entry.status, entry.reason or "(empty)", entry.message or "(empty)")
    return (*(text if text == "(empty)" else code(text) for text in shown), entry.meaning, entry.remedy)


def _type(schema: Schema) -> str:
    if schema.get(_INT_OR_STRING):
        return "integer or string"
    if "type" not in schema:
        return "any"
    if schema["type"] == "array":
        return f"list of {_type(schema['items'])}"
    if "additionalProperties" in schema:
        return f"map of {_type(schema['additionalProperties'])}"
    return "time" if schema.get("format") == "date-time" else str(schema["type"])


def _limit(schema: Schema) -> str:
    if "enum" in schema:
        return "one of " + ", ".join(map(str, schema["enum"]))
    limits = [f"{schema['maxLength']} characters"] if "maxLength" in schema else []
    entries = schema.get("maxItems", schema.get("maxProperties"))
    if entries is not None:
        limits.append(f"{entries} entries")
        limits += [f"{limit} each" for limit in [_limit(_member(schema))] if limit]
    return ", ".join(limits + _range(schema))


def _range(schema: Schema) -> list[str]:
    if "maximum" not in schema:
        return []
    return [f"{schema.get('minimum', 0)} to {schema['maximum']}"]


def _member(schema: Schema) -> Schema:
    """The schema of what a list or a map holds."""
    return dict(schema.get("items") or schema.get("additionalProperties") or {})


def _json(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)

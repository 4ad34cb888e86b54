"""CRDs from models: pydantic's JSON schema made structural, as the API server wants it. Pure; ``make generate`` writes.

Structural means: references inlined, no ``anyOf`` with null, no titles, every part with a type.
"""

from __future__ import annotations

from typing import Any

from services.kinds.shared.api_model import ApiModel, cel
from services.kinds.shared.kind import AGE, CATEGORY, Column, DefinedKind

Schema = dict[str, Any]

_DROPPED = {"title", "$defs", "additionalProperties", "propertyNames", "default"}
_NO_DEFAULT = (None, "")
"""Defaults of models that the API server need not store."""
_INT64 = {"type": "integer", "format": "int64"}


def custom_resource_definition(kind: DefinedKind) -> Schema:
    """The CustomResourceDefinition manifest of ``kind``."""
    singular = kind.name.lower()
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.plural}.{kind.resource.group}"},
        "spec": {
            "group": kind.resource.group,
            "names": {
                "kind": kind.name,
                "listKind": f"{kind.name}List",
                "plural": kind.plural,
                "singular": singular,
            }
            # Who may list what is in a namespace need not be allowed to list what is in none.
            | ({"categories": [CATEGORY]} if kind.scope == "Namespaced" else {})
            | ({"shortNames": list(kind.short_names)} if kind.short_names else {}),
            "scope": kind.scope,
            "versions": [_version(kind)],
        },
    }


def _version(kind: DefinedKind) -> Schema:
    subresources: Schema = {"subresources": {"status": {}}} if kind.status else {}
    return {
        "name": kind.resource.version,
        "served": True,
        "storage": True,
        **subresources,
        "additionalPrinterColumns": [_column(column) for column in (*kind.columns, AGE)],
        "schema": {"openAPIV3Schema": _object(kind)},
    }


def _object(kind: DefinedKind) -> Schema:
    """The schema of a whole resource."""
    parts = {"spec": kind.spec} | ({"status": kind.status} if kind.status else {})
    metadata = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"}}
    schema = {
        "type": "object",
        "description": kind.description,
        "required": ["spec"],
        "properties": metadata | {name: structural(model) for name, model in parts.items()},
    }
    return schema | (cel(*kind.rules) if kind.rules else {})


def _column(column: Column) -> Schema:
    wide = {"priority": 1} if column.is_wide else {}
    return {"name": column.heading, "type": column.type, "jsonPath": column.path} | wide


def structural(model: type[ApiModel]) -> Schema:
    """The structural schema of ``model``."""
    schema = model.model_json_schema(by_alias=True)
    return _part(schema, schema.get("$defs", {}))


def _part(schema: Schema, definitions: Schema) -> Schema:
    """One node: references and optionals resolved first, because siblings such as descriptions belong to the result."""
    merged = _resolved(schema, definitions)
    part = {key: value for key, value in merged.items() if key not in _DROPPED}
    if merged.get("default") not in _NO_DEFAULT:
        part["default"] = merged["default"]
    if "properties" in part:
        part["properties"] = {name: _part(member, definitions) for name, member in part["properties"].items()}
    if "items" in part:
        part["items"] = _part(part["items"], definitions)
    if isinstance(values := merged.get("additionalProperties"), dict):
        part["additionalProperties"] = _part(values, definitions)
    return part | _INT64 if part.get("type") == "integer" else part


def _resolved(schema: Schema, definitions: Schema) -> Schema:
    if "$ref" in schema:
        target = definitions[schema["$ref"].rsplit("/", 1)[-1]]
        return _resolved(target, definitions) | {key: value for key, value in schema.items() if key != "$ref"}
    if "anyOf" in schema:
        (present,) = [branch for branch in schema["anyOf"] if branch.get("type") != "null"]
        rest = {key: value for key, value in schema.items() if key != "anyOf"}
        return _resolved(present, definitions) | rest
    return schema

"""CRDs from models: pydantic's JSON schema made structural, as the API server wants it. Pure; ``make generate`` writes.

Structural means: references inlined, no ``anyOf`` with null, no titles, every part with a type.
"""

from __future__ import annotations

from typing import Any

from services.kinds.shared.api_group import GROUP, VERSION
from services.kinds.shared.api_model import ApiModel
from services.kinds.shared.kind import AGE, CATEGORY, Column, CustomKind

Schema = dict[str, Any]

_DROPPED = {"title", "$defs", "additionalProperties", "default"}
_NO_DEFAULT = (None, "")
"""What a model says when a field is left out, but the API server need not store."""
_INT64 = {"type": "integer", "format": "int64"}


def custom_resource_definition(kind: CustomKind) -> Schema:
    """The CustomResourceDefinition manifest of ``kind``."""
    singular = kind.name.lower()
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "names": {
                "kind": kind.name,
                "listKind": f"{kind.name}List",
                "plural": kind.plural,
                "singular": singular,
                "categories": [CATEGORY],
            }
            | ({"shortNames": [kind.short_name]} if kind.short_name else {}),
            "scope": "Namespaced",
            "versions": [_version(kind)],
        },
    }


def _version(kind: CustomKind) -> Schema:
    return {
        "name": VERSION,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "additionalPrinterColumns": [_column(column) for column in (*kind.columns, AGE)],
        "schema": {
            "openAPIV3Schema": {
                "type": "object",
                "description": kind.description,
                "required": ["spec"],
                "properties": {
                    "apiVersion": {"type": "string"},
                    "kind": {"type": "string"},
                    "metadata": {"type": "object"},
                    "spec": structural(kind.spec),
                    "status": structural(kind.status),
                },
            }
        },
    }


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

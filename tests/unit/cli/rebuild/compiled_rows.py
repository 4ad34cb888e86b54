"""Rows of the compiled tables, as topics hold them."""

from __future__ import annotations

from dataclasses import fields
from typing import Any


def compiled(row: type[Any], **columns: str) -> Any:
    return row(**dict.fromkeys(field.name for field in fields(row)) | columns)

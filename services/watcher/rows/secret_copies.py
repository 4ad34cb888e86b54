"""Copies of Secrets within a namespace: which fields are copied, and which Secrets are not. Pure.

Nothing here logs, raises, counts or represents their content.
"""

from __future__ import annotations

from services.common.errors import Permanent
from services.common.kubernetes import Manifest
from services.kinds.secret.rules import NEVER_COPIED
from services.watcher.secret_content import content_of, excess_of


def copied_content(source: Manifest, copy_type: str, max_bytes: int) -> Manifest:
    """The fields of the copy besides its metadata. Raises Permanent if ``source`` is not copied."""
    meta, source_type = source["metadata"], source.get("type", "")
    name = f"Secret {meta['namespace']}/{meta['name']}"
    if source_type in NEVER_COPIED:
        raise Permanent(f"{name} is of type {source_type}, which is not copied")
    if too_large := excess_of(source, max_bytes):
        raise Permanent(f"{name} is not copied: {too_large}")
    return {"type": copy_type, "data": content_of(source)}

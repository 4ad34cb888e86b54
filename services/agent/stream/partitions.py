"""Which partition of gitops.engine carries an engine instance's rows: as Debezium's PartitionRouting decides it."""

from __future__ import annotations


def partition_of(instance: str, partitions: int) -> int:
    """``(String.hashCode() & 0x7fffffff) % partitions``: PartitionRouting with ``hash.function=java``."""
    hashed = 0
    for unit in _utf16(instance):
        hashed = (31 * hashed + unit) & 0xFFFFFFFF
    return (hashed & 0x7FFFFFFF) % partitions


def _utf16(text: str) -> memoryview[int]:
    """Java hashes UTF-16 code units, not characters."""
    return memoryview(text.encode("utf-16-le")).cast("H")

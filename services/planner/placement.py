"""Which engine instance a new tenant lives on."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from uuid import UUID

from services.common.errors import Wait
from services.planner.rows import Instance


def place(tenant: UUID, instances: Iterable[Instance]) -> Instance:
    """The accepting instance with the highest hash together with the tenant (rendezvous hashing).

    Even over instances, the same at every call, and adding an instance moves no more than its own share.
    While none accepts, any will do: to refuse a new tenant would hold up its whole partition.
    Raises Wait if there is no instance at all.
    """
    known = list(instances)
    candidates = [instance for instance in known if instance.accepting] or known
    if not candidates:
        raise Wait("there is no engine instance; add one with 'gitopsctl engines apply'")
    return max(candidates, key=lambda instance: _score(tenant, instance.id))


def _score(tenant: UUID, instance: str) -> tuple[bytes, str]:
    return hashlib.blake2b(tenant.bytes + instance.encode(), digest_size=16).digest(), instance

"""Reports changes of Secrets that are not followed, so that resources that name them are sent again at once.

Only metadata is watched, from now on. Nothing is listed or stored, so a cluster with many Secrets costs no more than
their changes. Changes that a broken watch misses are found by :mod:`secret_rechecks`, which reads the named Secrets
from time to time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import aclosing

from services.common.kubernetes import SECRET, Changed, Deleted, KubeClient, reflect
from services.kinds.registry import REGISTRY
from services.kinds.secret.rules import NEVER_COPIED

WRITTEN_BY_TOOLS = ("helm.sh/release.v1",)
"""Types of Secrets that are many and large, and that no resource names."""

UNFOLLOWED = ",".join(f"type!={each}" for each in (*REGISTRY.secret_types, *NEVER_COPIED, *WRITTEN_BY_TOOLS))
"""Field selector of the Secrets that a resource may name, and that are not followed."""


async def follow_unfollowed(kube: KubeClient, observers: Sequence[Callable[[Changed | Deleted], None]]) -> None:
    """Pass each change to ``observers``, for ever. Raises Rejected if the API server forbids the watch."""
    changes = reflect(kube, SECRET, parts=(UNFOLLOWED,), metadata_only=True, changes_only=True)
    async with aclosing(changes) as events:
        async for event in events:
            if isinstance(event, Changed | Deleted):
                for observe in observers:
                    observe(event)

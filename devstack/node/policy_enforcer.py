"""The process that keeps the packet filter as the cluster's network policies say."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path

from devstack.node.commands import run
from devstack.node.network_policies import Cluster, ruleset
from services.common.api_resource import ApiResource
from services.common.kubernetes import NAMESPACE, Informer, KubeClient, Manifest, ObjectStore, connect, reflect
from services.common.kubernetes.builtin_kinds import namespace_and_name

POD = ApiResource("", "v1", "Pod", "pods")
NETWORK_POLICY = ApiResource("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies")
KINDS = (POD, NAMESPACE, NETWORK_POLICY)

Store = ObjectStore[tuple[str, str], Manifest]


def main() -> None:
    """Enforce the policies of the cluster whose kubeconfig the command line names; touch the file named next."""
    kubeconfig, ready = map(Path, sys.argv[1:])
    asyncio.run(enforce(kubeconfig, ready))


async def enforce(kubeconfig: Path, ready: Path) -> None:
    """For ever; ``ready`` is there once the filter is."""
    stores: dict[ApiResource, Store] = {kind: ObjectStore(namespace_and_name, lambda item, _: item) for kind in KINDS}
    changed = asyncio.Event()
    async with await connect(kubeconfig) as kube, asyncio.TaskGroup() as group:
        for kind in KINDS:
            group.create_task(_follow(kube, kind, stores[kind], changed))
        group.create_task(_write(stores, changed, ready))


async def _follow(kube: KubeClient, kind: ApiResource, store: Store, changed: asyncio.Event) -> None:
    async for _ in Informer(reflect(kube, kind), store).changes():
        changed.set()


async def _write(stores: Mapping[ApiResource, Store], changed: asyncio.Event, ready: Path) -> None:
    written = ""
    while await changed.wait():
        changed.clear()
        if not all(store.is_complete for store in stores.values()):
            continue  # the list that is under way ends with another change
        wanted = ruleset(Cluster(*(list(stores[kind].values()) for kind in KINDS)))
        if wanted != written:
            run("nft", "--file", "-", given=wanted)
            written = wanted
        ready.touch()  # noqa: ASYNC240 - nothing else waits for it


if __name__ == "__main__":
    main()

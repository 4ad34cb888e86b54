"""Where tenants are by what the engine clusters have: after a loss of the topics, and newer than any backup.

Only an Application counts. A tenant that has none loses nothing where it is placed anew.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from uuid import UUID

from services.common.argocd_names import CLUSTER_SUFFIX
from services.common.errors import InvalidConfiguration
from services.common.json_values import dict_of, text_of
from services.common.kubernetes import APPLICATION, connect
from services.planner.domain.fleet.rows import EngineInstanceRow
from services.planner.engines.argocd.names import tenant_of


def parse_kubeconfigs(given: Iterable[str], clusters: Collection[str]) -> dict[str, Path]:
    """Kubeconfig by engine cluster, of ``CLUSTER=FILE``. Raises InvalidConfiguration if one is not known."""
    found: dict[str, Path] = {}
    for each in given:
        cluster, _, file = each.partition("=")
        if not file:
            raise InvalidConfiguration(f"--engines {each}: give the engine cluster and its kubeconfig, CLUSTER=FILE")
        if cluster not in clusters:
            raise InvalidConfiguration(
                f"--engines {each}: there is no engine instance in cluster '{cluster}', but in {', '.join(clusters)}"
            )
        found[cluster] = Path(file)
    return found


def read_placements(kubeconfigs: Mapping[str, Path], instances: Iterable[EngineInstanceRow]) -> dict[UUID, str]:
    """The instance of each tenant that has Applications in one of these clusters; if on two, where it has most.

    Raises InvalidConfiguration if a kubeconfig is none, Retry if a cluster does not answer.
    """
    found: defaultdict[UUID, Counter[str]] = defaultdict(Counter)
    there = [each for each in instances if not each.is_retired]
    for cluster, kubeconfig in kubeconfigs.items():
        of_cluster = {each.namespace: each.id for each in there if each.engine_cluster == cluster}
        for namespace, tenant in asyncio.run(_tenants_in(kubeconfig, of_cluster)):
            found[tenant][of_cluster[namespace]] += 1
    return {tenant: max(sorted(on), key=on.__getitem__) for tenant, on in found.items()}


async def _tenants_in(kubeconfig: Path, namespaces: Iterable[str]) -> list[tuple[str, UUID]]:
    """Of each Application of ours in the engine namespaces of a cluster, where it is and whose."""
    found = []
    async with await connect(kubeconfig) as kube:
        for namespace in namespaces:
            async for page in kube.list_pages(APPLICATION, namespace):
                for application in page.items:
                    project = text_of(dict_of(application.get("spec")).get("project"))
                    if (tenant := tenant_of(project.removesuffix(CLUSTER_SUFFIX))) is not None:
                        found.append((namespace, tenant))
    return found

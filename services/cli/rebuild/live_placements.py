"""Finds where tenants are from the engine clusters: after a loss of the topics, and newer than any backup.

Only Applications count. A tenant without one loses nothing if it is placed anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from uuid import UUID

from services.cli.fleet.fleet_orders import fleet
from services.cli.rebuild.placements import Located, Placements, placements_of
from services.cli.rebuild.start import TopicContents
from services.common.argocd_names import CLUSTER_SUFFIX
from services.common.errors import InvalidConfiguration
from services.common.json_values import dict_of, text_of
from services.common.kubernetes import APPLICATION, connect
from services.common.startup import await_dependency
from services.planner.domain.fleet.rows import EngineInstanceRow
from services.planner.engines.argocd.names import DATABASE_ID, tenant_of


def add_live_placements(contents: TopicContents, engines: Iterable[str], url: str, timeout: float) -> TopicContents:
    """Add the placements that Applications show to ``contents``; a tenant that topics place stays where they place it.

    ``engines``: ``CLUSTER=FILE`` for each engine cluster to read. Raises InvalidConfiguration, Unavailable.
    """
    stored = await_dependency("database", lambda: fleet(url), timeout)
    instances = {**stored.instances, **contents.fleet}.values()
    kubeconfigs = parse_kubeconfigs(engines, sorted({each.engine_cluster for each in instances}))
    live = await_dependency("engine clusters", lambda: read_applications(kubeconfigs, instances), timeout)
    from_topics = contents.placements
    found = placements_of(each for each in live if each.tenant not in from_topics.tenants)
    return replace(
        contents,
        placements=Placements(
            {**found.tenants, **from_topics.tenants}, {**found.deployments, **from_topics.deployments}
        ),
    )


def parse_kubeconfigs(given: Iterable[str], clusters: Collection[str]) -> dict[str, Path]:
    """Kubeconfigs by engine cluster. Raises InvalidConfiguration for a cluster that has no instance."""
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


def read_applications(kubeconfigs: Mapping[str, Path], instances: Iterable[EngineInstanceRow]) -> list[Located]:
    """All Applications of ours in these clusters, with the instance that each is on.

    Raises InvalidConfiguration if a kubeconfig is none, Retry if a cluster does not answer.
    """
    found: list[Located] = []
    there = [each for each in instances if not each.is_retired]
    for cluster, kubeconfig in kubeconfigs.items():
        of_cluster = {each.namespace: each.id for each in there if each.engine_cluster == cluster}
        found += asyncio.run(_applications_in(kubeconfig, of_cluster))
    return found


async def _applications_in(kubeconfig: Path, instances: Mapping[str, str]) -> list[Located]:
    """The Applications in the engine namespaces of a cluster; ``instances``: ids by namespace."""
    found = []
    async with await connect(kubeconfig) as kube:
        for namespace, instance in instances.items():
            async for page in kube.list_pages(APPLICATION, namespace):
                for application in page.items:
                    project = text_of(dict_of(application.get("spec")).get("project"))
                    tenant = tenant_of(project.removesuffix(CLUSTER_SUFFIX))
                    deployment = _id_of(dict_of(dict_of(application.get("metadata")).get("labels")).get(DATABASE_ID))
                    if tenant is not None and deployment is not None:
                        found.append(Located(tenant, deployment, instance))
    return found


def _id_of(label: object) -> UUID | None:
    """Id of the deployment that an Application was made for; None if the label has none."""
    try:
        return UUID(text_of(label))
    except ValueError:
        return None

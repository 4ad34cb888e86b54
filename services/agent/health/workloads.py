"""How many pods of each of Argo CD's workloads are ready, and how many keep restarting. Pure.

An Argo CD that runs as processes has neither pods nor Deployments: then there is no signal of its workloads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta

from services.agent.health.signals import Workload
from services.agent.objects.reconciliation import time_of
from services.common.argocd_names import CONTROLLER, NAME_LABEL, REDIS, REPO_SERVER
from services.common.json_values import dict_of, dicts_of, text_of
from services.common.kubernetes import Manifest

OFTEN, OF_LATE, LASTING = 3, timedelta(minutes=10), timedelta(hours=6)
"""A container keeps restarting if it was restarted so often, last so recently, and had not run for so long before.
Restarts are counted over the pod's life: a pod that has run for months has some, like its node."""


def workloads_of(owners: Mapping[str, Manifest | None], pods: Iterable[Manifest], now: datetime) -> Iterator[Workload]:
    """The workloads that can be read.

    Args:
        owners: the Deployment or StatefulSet by its name; None: there is none.
        pods: Argo CD's, of the engine namespace.
        now: when they were read.
    """
    by_name: dict[str, list[Manifest]] = {CONTROLLER: [], REPO_SERVER: [], REDIS: []}
    for pod in pods:
        by_name.get(dict_of(pod["metadata"].get("labels")).get(NAME_LABEL, ""), []).append(pod)
    for name, of_name in by_name.items():
        restarting = sum(_keeps_restarting(pod, now) for pod in of_name)
        owner = owners.get(name)
        status = dict_of((owner or {}).get("status"))
        if owner is not None and "observedGeneration" in status:  # else nobody looks after it
            wanted = dict_of(owner.get("spec")).get("replicas", 1)
            yield Workload(name, int(wanted), int(status.get("readyReplicas", 0)), restarting)
        elif of_name:
            yield Workload(name, len(of_name), sum(map(_is_ready, of_name)), restarting)


def _is_ready(pod: Manifest) -> bool:
    conditions = dicts_of(dict_of(pod.get("status")).get("conditions"))
    return any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)


def _keeps_restarting(pod: Manifest, now: datetime) -> bool:
    return any(
        int(each.get("restartCount", 0)) >= OFTEN and _was_short(dict_of(each.get("lastState")), now)
        for each in dicts_of(dict_of(pod.get("status")).get("containerStatuses"))
    )


def _was_short(state: Manifest, now: datetime) -> bool:
    """Whether the previous run ended recently, and was short."""
    terminated = dict_of(state.get("terminated"))
    began, ended = (time_of(text_of(terminated.get(name))) for name in ("startedAt", "finishedAt"))
    return ended is not None and now - ended <= OF_LATE and (began is None or ended - began < LASTING)

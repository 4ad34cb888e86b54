"""What an agent does to objects of a real API server."""

from __future__ import annotations

import asyncio
from typing import Any

from services.agent.reconcile.enqueuer import FREE_REPAIRS
from services.common.kubernetes import APP_PROJECT, APPLICATION, KubeClient, NotFound
from services.common.messages import Applied, Failed, Removed, StatusReported
from tests.component.agent.conftest import INSTANCE, StartAgent, until
from tests.component.agent.engine_log import EngineLog, Observations, app_project, application, row
from tests.component.agent.worker import Worker

SOMEBODY = "kubectl-edit"


class Engine:
    """The test's side of one engine namespace."""

    def __init__(self, kube: KubeClient, namespace: str, log: EngineLog, observations: Observations) -> None:
        self.kube, self.namespace, self.log, self.observations = kube, namespace, log, observations

    def desire(self, manifest: dict[str, Any], desired: str = "present") -> str:
        """PatchApplication a row and wait for what is reported of its digest, or of its removal."""
        each = row(INSTANCE, manifest, desired)
        self.log.write(each)
        if desired == "present":
            name, digest = each["name"], each["digest"]
            until(lambda: any(getattr(event, "digest", "") == digest for event in self.observations.of(name)))
        return str(each["digest"])

    def until_repaired(self, digest: str, count: int) -> float:
        """Wait until so many repairs were reported; returns how long that took, in seconds."""
        repaired = Applied(digest, drift_repaired=True)
        return until(lambda: self.observations.of("app").count(repaired) == count)

    async def get(self, name: str = "app") -> dict[str, Any]:
        return await self.kube.get_object(APPLICATION, self.namespace, name)

    async def edit(self, patch: dict[str, Any], name: str = "app") -> dict[str, Any]:
        return await self.kube.patch_object(APPLICATION, self.namespace, name, patch, field_manager=SOMEBODY)

    async def until_going(self, name: str = "app") -> dict[str, Any]:
        """Wait until it is being deleted; returns its metadata."""
        async with asyncio.timeout(30):
            while not (meta := (await self.get(name))["metadata"]).get("deletionTimestamp"):  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        return dict(meta)

    async def exists(self, name: str = "app") -> bool:
        try:
            await self.get(name)
        except NotFound:
            return False
        return True


async def test_field_when_it_leaves_the_manifest_then_it_leaves_the_object(
    agent: Worker, kube: KubeClient, namespace: str, engine_log: EngineLog, observations: Observations
) -> None:
    engine = Engine(kube, namespace, engine_log, observations)
    engine.desire(application("app", namespace, targetRevision="main"))
    engine.desire(application("app", namespace, targetRevision="v1"))
    assert (await engine.get())["spec"]["source"]["targetRevision"] == "v1"
    engine.desire(application("app", namespace))
    assert "targetRevision" not in (await engine.get())["spec"]["source"]


async def test_parts_that_are_not_ours_when_the_row_changes_then_they_are_left_alone(
    agent: Worker, kube: KubeClient, namespace: str, engine_log: EngineLog, observations: Observations
) -> None:
    engine = Engine(kube, namespace, engine_log, observations)
    engine.desire(application("app", namespace))
    theirs = {"metadata": {"labels": {"team": "a"}}, "spec": {"revisionHistoryLimit": 3}}
    await engine.edit(theirs | {"status": {"health": {"status": "Healthy"}}})
    engine.desire(application("app", namespace, targetRevision="v1"))
    found = await engine.get()
    assert found["metadata"]["labels"]["team"] == "a"
    assert found["spec"]["revisionHistoryLimit"] == 3
    assert found["status"]["health"] == {"status": "Healthy"}


async def test_row_when_the_object_is_so_already_then_nothing_is_written(
    agent: Worker, kube: KubeClient, namespace: str, engine_log: EngineLog, observations: Observations
) -> None:
    engine = Engine(kube, namespace, engine_log, observations)
    engine.desire(application("app", namespace))
    before = await engine.get()
    engine.desire(application("app", namespace))
    until(lambda: len([event for event in observations.of("app") if isinstance(event, Applied)]) == 2)
    assert (await engine.get())["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]


async def test_object_when_somebody_edits_it_then_it_is_repaired_within_a_second(
    agent: Worker, kube: KubeClient, namespace: str, engine_log: EngineLog, observations: Observations
) -> None:
    engine = Engine(kube, namespace, engine_log, observations)
    digest = engine.desire(application("app", namespace))
    seconds = []
    for count in range(1, FREE_REPAIRS + 1):
        await engine.edit({"spec": {"source": {"path": "elsewhere", "targetRevision": "evil"}}})
        seconds.append(engine.until_repaired(digest, count))
        assert (await engine.get())["spec"]["source"] == application("app", namespace)["spec"]["source"]
    assert min(seconds) < 1, seconds  # a busy machine delays one or another of them, an agent that waits all


async def test_object_when_somebody_deletes_it_then_it_is_made_again_within_a_second(
    agent: Worker, kube: KubeClient, namespace: str, engine_log: EngineLog, observations: Observations
) -> None:
    engine = Engine(kube, namespace, engine_log, observations)
    digest = engine.desire(application("app", namespace))
    seconds = []
    for count in range(1, FREE_REPAIRS + 1):
        await kube.delete_object(APPLICATION, namespace, "app")
        seconds.append(engine.until_repaired(digest, count))
        assert await engine.exists()
    assert min(seconds) < 1, seconds  # a busy machine delays one or another of them, an agent that waits all


async def test_project_when_somebody_widens_it_then_it_is_narrowed_again(
    agent: Worker, kube: KubeClient, namespace: str, engine_log: EngineLog, observations: Observations
) -> None:
    engine = Engine(kube, namespace, engine_log, observations)
    digest = engine.desire(app_project("project", namespace))
    wider = {"spec": {"clusterResourceWhitelist": [{"group": "*", "kind": "*"}], "sourceRepos": ["*"]}}
    await kube.patch_object(APP_PROJECT, namespace, "project", wider, field_manager=SOMEBODY)
    until(lambda: observations.has("project", Applied(digest, drift_repaired=True)))
    found = await kube.get_object(APP_PROJECT, namespace, "project")
    assert found["spec"] == app_project("project", namespace)["spec"]


async def test_deletion_when_argo_cd_finishes_then_object_and_project_go_in_order(
    agent: Worker, kube: KubeClient, namespace: str, engine_log: EngineLog, observations: Observations
) -> None:
    engine = Engine(kube, namespace, engine_log, observations)
    engine.desire(app_project("app-project-a", namespace))
    engine.desire(application("app", namespace))
    project = row(INSTANCE, app_project("app-project-a", namespace), "absent")
    engine_log.write(row(INSTANCE, application("app", namespace), "absent"), project)
    waiting = await engine.until_going()
    assert "resources-finalizer.argocd.argoproj.io/background" in waiting["finalizers"]
    assert await kube.get_object(APP_PROJECT, namespace, "app-project-a")
    # With the API server's own, which it may have taken away since: a removed one cannot be written again.
    await engine.edit({"metadata": {"finalizers": None}})
    until(lambda: observations.has("app-project-a", Removed(forced=False)))
    assert observations.has("app", Removed(forced=False))
    assert not await engine.exists()


async def test_deletion_when_nobody_finishes_it_then_it_is_forced_and_nothing_else_waits(
    agent: Worker,
    start_agent: StartAgent,
    kube: KubeClient,
    namespace: str,
    engine_log: EngineLog,
    observations: Observations,
) -> None:
    engine = Engine(kube, namespace, engine_log, observations)
    names = [f"stuck-{number}" for number in range(20)]
    engine_log.write(*(row(INSTANCE, application(name, namespace)) for name in names))
    until(lambda: all(observations.of(name) for name in names))
    engine_log.write(*(row(INSTANCE, application(name, namespace), "absent") for name in names))
    for name in names:
        await engine.until_going(name)
    engine.desire(application("app", namespace))
    assert not any(isinstance(event, Removed) for name in names for event in observations.of(name))
    assert agent.stop() == 0
    start_agent({INSTANCE: namespace}, DELETION_DEADLINE_SECONDS="1")
    until(lambda: all(observations.has(name, Removed(forced=True)) for name in names))
    assert not await engine.exists(names[0])


async def test_status_when_argo_cd_writes_it_then_the_visible_part_is_reported_once(
    agent: Worker, kube: KubeClient, namespace: str, engine_log: EngineLog, observations: Observations
) -> None:
    engine = Engine(kube, namespace, engine_log, observations)
    engine.desire(application("app", namespace))
    healthy, degraded = '{"health":{"status":"Healthy"}}', '{"health":{"status":"Degraded"}}'

    def said() -> list[str]:
        """What was reported; that there is no status yet is seen first if the watch tells of our object before us."""
        reported = [event.status for event in observations.of("app") if isinstance(event, StatusReported)]
        return [status for status in reported if status != "{}"]

    for second in range(3):
        status = {"health": {"status": "Healthy"}, "reconciledAt": f"2026-01-01T00:00:0{second}Z"}
        await engine.edit({"status": status})
    until(lambda: healthy in said())
    await engine.edit({"status": {"health": {"status": "Degraded"}}})  # seen after all the others
    until(lambda: degraded in said())
    assert said() == [healthy, degraded]


async def test_message_when_it_cannot_be_understood_then_the_next_one_is_taken(
    agent: Worker, kube: KubeClient, namespace: str, engine_log: EngineLog, observations: Observations
) -> None:
    engine_log.write_raw(INSTANCE, b"\x00\x00\x00\x00\x01nonsense")
    engine_log.write_raw(INSTANCE, b"no header")
    Engine(kube, namespace, engine_log, observations).desire(application("app", namespace))
    assert 'gitops_dead_letters_total{service="agent"' in agent.get("/metrics")[1]


async def test_row_when_the_api_server_refuses_it_then_that_is_reported(
    agent: Worker, kube: KubeClient, namespace: str, engine_log: EngineLog, observations: Observations
) -> None:
    manifest = application("app", namespace)
    manifest["metadata"]["labels"]["databaseID"] = "not a label value"
    Engine(kube, namespace, engine_log, observations).desire(manifest)
    [event] = observations.of("app")
    assert isinstance(event, Failed)
    assert event.permanent
    assert "not a label value" in event.message

"""Two tenants of one instance and a repository that opens to one of them, in virtual time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta

import pytest

from services.agent.credentials.check_result import CheckResult, RepositoryAccess
from services.agent.objects.live import value_hash
from services.agent.private_repositories.isolation import REPO_SERVER_TIMEOUT
from services.agent.private_repositories.known_repositories import TENANT_LIMIT, PrivateRepositoryRegistry, owner_of
from services.agent.private_repositories.registry_expiry import EXPIRY_SECONDS, REPO_SERVERS, SETTLED
from services.agent.private_repositories.registry_secret import secret_name
from services.agent.private_repositories.repository_identity import identity_of
from services.common.errors import Retry, Wait
from services.common.kubernetes import Rejected
from services.common.messages import Applied, Checked, EngineResource, Failed, SyncMoved
from services.kinds.gitops_deployment import catalogue as deployment
from services.kinds.repository_credential import catalogue as credential
from tests.unit.agent.driver import Driver
from tests.unit.agent.fakes import Bench, bench, secret_of
from tests.unit.agent.rows import application_row, project_row, repository_row, sync_row
from tests.unit.fake_clock import settle

URL = "https://example.com/Team/repo"
LISTED = "https://example.com/team/repo"
"""As the planner lists it."""
PUBLIC = "https://example.com/public"
OURS, THEIRS = "project-ours", "project-theirs"
REGISTRY = secret_name(owner_of(OURS))
NEEDS_LOGIN = deployment.REPOSITORY_NEEDS_LOGIN.text()
ROUND = 301
"""Seconds within which everything is compared."""
CHECK = 601
"""Seconds within which every login is checked."""


def needs_login(row: EngineResource) -> Failed:
    """What is reported of a row of a tenant that is kept from its repository."""
    return Failed(row.digest, permanent=True, message=NEEDS_LOGIN, for_user=True)


def project(name: str, *more: str) -> EngineResource:
    return project_row(name, sourceRepos=[LISTED, PUBLIC, *more])


def login(name: str, lane: str, url: str = URL) -> EngineResource:
    return repository_row(name, url, lane)


def finds(driver: Driver, row: EngineResource, access: RepositoryAccess | None, url: str = URL) -> None:
    """What the check of a login will find out."""
    works = access is not RepositoryAccess.NOBODY and access is not None
    made = secret_of(row, url=url) if works else None
    driver.checker.outcomes[row.name] = CheckResult(made, "Told", "", access=access)


def automated(url: str) -> EngineResource:
    """An Application of theirs that Argo CD syncs by itself."""
    row = application_row("app", lane=THEIRS, repoURL=url)
    manifest = json.loads(row.manifest)
    manifest["spec"]["syncPolicy"] = {"automated": {"prune": True}, "retry": {"limit": -1}}
    text = json.dumps(manifest)
    return replace(row, manifest=text, digest=value_hash(text))


OUR_LOGIN, THEIR_LOGIN = login("ours", OURS), login("theirs", THEIRS)
THEIR_PROJECT, OUR_PROJECT = project(THEIRS), project(OURS)
THEIR_APPLICATION = application_row("app", lane=THEIRS, repoURL=URL)
OUR_APPLICATION = application_row("our-app", lane=OURS, repoURL=URL)
BOTH = (OUR_PROJECT, THEIR_PROJECT, OUR_APPLICATION, THEIR_APPLICATION)


@pytest.fixture
def parts() -> Bench:
    return bench()


@pytest.fixture
async def driver(parts: Bench) -> AsyncIterator[Driver]:
    made = Driver(parts)
    finds(made, OUR_LOGIN, RepositoryAccess.LOGIN)
    yield made
    await made.instance.stop()
    assert made.defects == []


def listed(driver: Driver, name: str) -> list[str]:
    repositories: list[str] = driver.cluster.objects["AppProject", name]["spec"]["sourceRepos"]
    return repositories


async def over(driver: Driver) -> None:
    """What Argo CD had in hand has had time to fail."""
    await driver.clock.advance(REPO_SERVER_TIMEOUT / timedelta(seconds=1) + 1)


async def fenced(driver: Driver, *rows: EngineResource) -> None:
    """Our login was found to be the only thing that opens it."""
    await driver.begin(*rows)
    await driver.apply(OUR_LOGIN)
    await over(driver)


async def test_repository_when_it_opens_to_a_login_only_then_others_are_kept_from_it(driver: Driver) -> None:
    await fenced(driver, *BOTH)
    assert listed(driver, THEIRS) == [PUBLIC]
    assert listed(driver, OURS) == [LISTED, PUBLIC]
    assert driver.reports.of("app")[-1] == Failed(
        THEIR_APPLICATION.digest, permanent=True, message=NEEDS_LOGIN, for_user=True
    )
    assert not [event for event in driver.reports.of("our-app") if isinstance(event, Failed)]


async def test_repository_when_it_opens_to_anybody_then_nothing_changes_and_nothing_is_remembered(
    driver: Driver,
) -> None:
    finds(driver, OUR_LOGIN, RepositoryAccess.ANYBODY)
    await driver.begin(*BOTH)
    driver.cluster.calls.clear()
    await driver.apply(OUR_LOGIN)
    assert driver.cluster.writes() == [("create", "ours")]
    assert listed(driver, THEIRS) == [LISTED, PUBLIC]


@pytest.mark.parametrize("access", [RepositoryAccess.NOBODY, None])
async def test_login_when_it_does_not_work_then_nobody_is_kept_from_anything(
    driver: Driver, access: RepositoryAccess | None
) -> None:
    finds(driver, OUR_LOGIN, access)
    await fenced(driver, *BOTH)
    assert listed(driver, THEIRS) == [LISTED, PUBLIC]
    assert ("Secret", REGISTRY) not in driver.cluster.objects


async def test_repository_when_it_is_remembered_slowly_then_the_login_waits_for_what_argocd_had_begun_all_the_same(
    driver: Driver,
) -> None:
    await driver.begin(*BOTH)
    gate = driver.cluster.gates[REGISTRY] = asyncio.Event()
    await driver.apply(OUR_LOGIN)
    assert listed(driver, THEIRS) == [PUBLIC]
    gate.set()
    await settle()
    assert "ours" not in driver.cluster.names("Secret")
    await over(driver)
    assert "ours" in driver.cluster.names("Secret")


async def test_repository_when_it_is_remembered_at_the_second_attempt_then_the_login_waits_all_the_same(
    driver: Driver,
) -> None:
    await driver.begin(*BOTH)
    driver.cluster.refusing[REGISTRY] = Retry("away")
    await driver.apply(OUR_LOGIN)
    assert listed(driver, THEIRS) == [PUBLIC]
    del driver.cluster.refusing[REGISTRY]
    await driver.clock.advance(10)
    assert "ours" not in driver.cluster.names("Secret")
    await over(driver)
    assert "ours" in driver.cluster.names("Secret")


async def test_repository_when_first_found_private_then_argocd_has_the_login_after_all_else(driver: Driver) -> None:
    await driver.begin(*BOTH)
    driver.cluster.calls.clear()
    gate = driver.cluster.gates[THEIRS] = asyncio.Event()
    await driver.apply(OUR_LOGIN)
    await over(driver)
    assert ("create", REGISTRY) in driver.cluster.writes()
    assert "ours" not in driver.cluster.names("Secret")
    gate.set()
    await settle()
    assert listed(driver, THEIRS) == [PUBLIC]
    assert "ours" not in driver.cluster.names("Secret")
    await over(driver)
    assert "ours" in driver.cluster.names("Secret")
    names = [name for _, name in driver.cluster.writes()]
    assert names.index(REGISTRY) < names.index("ours") > names.index(THEIRS)


async def test_repository_when_nobody_else_names_it_then_its_login_waits_for_the_registry_only(driver: Driver) -> None:
    await driver.begin(OUR_PROJECT, OUR_APPLICATION)
    driver.cluster.calls.clear()
    await driver.apply(OUR_LOGIN)
    assert driver.cluster.writes() == [("create", REGISTRY), ("create", "ours")]


async def test_registry_when_it_cannot_be_written_then_argocd_does_not_get_the_login(driver: Driver) -> None:
    await driver.begin(OUR_PROJECT)
    driver.cluster.refusing[REGISTRY] = Retry("no answer")
    await driver.apply(OUR_LOGIN)
    await over(driver)
    assert "ours" not in driver.cluster.names("Secret")
    driver.cluster.refusing.clear()
    await driver.clock.advance(61)
    assert "ours" in driver.cluster.names("Secret")


async def test_operation_when_its_tenant_is_kept_from_the_repository_then_it_is_ended_first(driver: Driver) -> None:
    await driver.begin(*BOTH)
    driver.cluster.edit("Application", "app", {"operation": {"sync": {}}})
    await settle()
    await driver.apply(OUR_LOGIN)
    assert "operation" not in driver.cluster.objects["Application", "app"]
    assert "ours" not in driver.cluster.names("Secret")
    await over(driver)
    assert "ours" in driver.cluster.names("Secret")


async def test_sync_when_its_tenant_is_kept_from_the_repository_then_it_is_refused(driver: Driver) -> None:
    await fenced(driver, *BOTH)
    order = replace(sync_row(name="app"), lane=THEIRS)
    await driver.apply(order)
    assert "operation" not in driver.cluster.objects["Application", "app"]
    failed = needs_login(order)
    assert [event for event in driver.reports.of("app") if event == failed] == [failed]
    assert not [event for event in driver.reports.of("app") if isinstance(event, SyncMoved)]


async def test_application_when_it_comes_later_then_it_is_not_made(driver: Driver) -> None:
    await fenced(driver, OUR_PROJECT, OUR_APPLICATION)
    await driver.apply(THEIR_PROJECT, THEIR_APPLICATION)
    assert listed(driver, THEIRS) == [PUBLIC]
    assert driver.cluster.names("Application") == ["our-app"]


@pytest.mark.parametrize(
    "spelled",
    ["https://EXAMPLE.com/team/REPO.git", "https://example.com/Team/repo", "https://example.com/Team/repo.git"],
)
async def test_application_when_it_spells_the_url_otherwise_then_it_is_kept_from_it_too(
    driver: Driver, spelled: str
) -> None:
    await fenced(driver, OUR_PROJECT, project_row(THEIRS, sourceRepos=[spelled]))
    await driver.apply(application_row("app", lane=THEIRS, repoURL=spelled))
    assert listed(driver, THEIRS) == []
    assert driver.cluster.names("Application") == []


async def test_project_when_somebody_widens_it_then_it_is_narrowed_again(driver: Driver) -> None:
    await fenced(driver, *BOTH)
    driver.cluster.edit("AppProject", THEIRS, {"spec": {"sourceRepos": [LISTED, PUBLIC]}})
    await settle()
    assert listed(driver, THEIRS) == [PUBLIC]


async def test_project_when_narrowed_then_it_stays_so_without_another_write(driver: Driver) -> None:
    await fenced(driver, *BOTH)
    driver.cluster.calls.clear()
    await driver.clock.advance(ROUND)
    assert driver.cluster.writes() == []


async def test_tenant_when_a_login_of_its_own_works_then_it_may_read_it_and_users_see_that(driver: Driver) -> None:
    await fenced(driver, *BOTH)
    finds(driver, THEIR_LOGIN, RepositoryAccess.LOGIN)
    await driver.apply(THEIR_LOGIN)
    assert listed(driver, THEIRS) == [LISTED, PUBLIC]
    assert driver.reports.of("app")[-1] == Applied(THEIR_APPLICATION.digest)


async def test_tenant_when_its_login_is_not_checked_yet_then_it_has_to_wait(driver: Driver) -> None:
    await fenced(driver, *BOTH)
    finds(driver, THEIR_LOGIN, RepositoryAccess.LOGIN)
    gate = driver.checker.gates["theirs"] = asyncio.Event()
    await driver.apply(THEIR_LOGIN)
    assert listed(driver, THEIRS) == [PUBLIC]
    gate.set()
    await settle()
    assert listed(driver, THEIRS) == [LISTED, PUBLIC]


async def test_tenant_when_its_login_is_refused_later_then_it_is_kept_from_it_again(driver: Driver) -> None:
    await fenced(driver, *BOTH)
    finds(driver, THEIR_LOGIN, RepositoryAccess.LOGIN)
    await driver.apply(THEIR_LOGIN)
    finds(driver, THEIR_LOGIN, RepositoryAccess.NOBODY)
    await driver.clock.advance(CHECK)
    assert listed(driver, THEIRS) == [PUBLIC]
    assert "theirs" in driver.cluster.names("Secret")


async def test_tenant_when_the_server_does_not_answer_then_it_goes_on_reading(driver: Driver) -> None:
    await fenced(driver, *BOTH)
    finds(driver, OUR_LOGIN, None)
    await driver.clock.advance(CHECK)
    assert listed(driver, OURS) == [LISTED, PUBLIC]


async def test_tenant_when_its_login_is_withdrawn_then_nobody_may_read_it_any_more(driver: Driver) -> None:
    await fenced(driver, *BOTH)
    await driver.apply(replace(OUR_LOGIN, desired="absent"))
    assert (listed(driver, OURS), listed(driver, THEIRS)) == ([PUBLIC], [PUBLIC])
    assert "ours" not in driver.cluster.names("Secret")
    await driver.apply(replace(OUR_LOGIN, deleted=True))
    assert listed(driver, OURS) == [PUBLIC]


async def test_tenant_when_its_login_is_for_another_repository_then_it_does_not_help(driver: Driver) -> None:
    await fenced(driver, *BOTH)
    other = login("theirs", THEIRS, "https://example.com/other")
    finds(driver, other, RepositoryAccess.LOGIN, "https://example.com/other")
    await driver.apply(other)
    assert listed(driver, THEIRS) == [PUBLIC]
    finds(driver, THEIR_LOGIN, RepositoryAccess.NOBODY)
    await driver.apply(THEIR_LOGIN)  # the same resource, turned to what it cannot open
    assert listed(driver, THEIRS) == [PUBLIC]


async def test_instance_when_taken_over_then_who_was_kept_out_stays_out_and_who_reads_goes_on(
    driver: Driver, parts: Bench
) -> None:
    rows = (*BOTH, OUR_LOGIN, THEIR_LOGIN)
    finds(driver, THEIR_LOGIN, RepositoryAccess.NOBODY)
    await driver.begin(*rows)
    await over(driver)
    await driver.instance.suspend()
    driver.checker.gates |= {"ours": asyncio.Event(), "theirs": asyncio.Event()}
    driver.cluster.calls.clear()
    driver.instance.start_work(rows)
    await settle()
    assert driver.cluster.writes() == []
    assert (listed(driver, OURS), listed(driver, THEIRS)) == ([LISTED, PUBLIC], [PUBLIC])
    assert driver.reports.of("app")[-1] == Failed(
        THEIR_APPLICATION.digest, permanent=True, message=NEEDS_LOGIN, for_user=True
    )


async def test_instance_when_taken_over_without_any_login_left_then_the_repository_is_still_private(
    driver: Driver,
) -> None:
    await fenced(driver, *BOTH)
    await driver.instance.suspend()
    driver.cluster.edit("AppProject", THEIRS, {"spec": {"sourceRepos": [LISTED]}})
    driver.instance.start_work(BOTH)
    await settle()
    assert (listed(driver, OURS), listed(driver, THEIRS)) == ([PUBLIC], [PUBLIC])


async def test_instance_when_it_cannot_read_what_is_private_then_nothing_is_applied_until_it_can(
    driver: Driver,
) -> None:
    driver.cluster.failing = Rejected("no right", 403)
    await driver.begin(*BOTH)
    assert driver.cluster.writes() == []
    driver.cluster.failing = None
    await driver.clock.advance(16)
    assert driver.cluster.names("AppProject") == [OURS, THEIRS]


async def test_repository_when_it_becomes_public_then_its_next_check_opens_it_to_all(driver: Driver) -> None:
    await fenced(driver, *BOTH)
    finds(driver, OUR_LOGIN, RepositoryAccess.ANYBODY)
    await driver.clock.advance(CHECK)
    assert listed(driver, THEIRS) == [LISTED, PUBLIC]
    await driver.instance.suspend()
    driver.instance.start_work((THEIR_PROJECT,))
    await settle()
    assert listed(driver, THEIRS) == [LISTED, PUBLIC]


async def test_repository_when_it_becomes_public_and_has_no_login_then_who_wants_it_has_it_asked(
    driver: Driver,
) -> None:
    await fenced(driver, *BOTH)
    await driver.apply(replace(OUR_LOGIN, desired="absent"))
    assert set(driver.checker.probed) == {(URL, "local/team-a")}
    driver.checker.public.add(URL)
    await driver.clock.advance(ROUND)
    assert (listed(driver, OURS), listed(driver, THEIRS)) == (
        [LISTED, PUBLIC],
        [LISTED, PUBLIC],
    )
    assert driver.reports.of("app")[-1] == Applied(THEIR_APPLICATION.digest)


async def test_question_when_many_want_the_same_then_it_is_asked_once_for_all_and_then_once_a_minute(
    driver: Driver,
) -> None:
    await fenced(driver, OUR_PROJECT, THEIR_PROJECT)
    rows = [application_row(f"app-{number}", lane=THEIRS, repoURL=URL) for number in range(20)]
    gate = driver.checker.gates[f"public {URL}"] = asyncio.Event()
    await driver.apply(*rows)
    gate.set()
    await driver.apply(*rows)
    assert len(driver.checker.probed) == 1
    await driver.clock.advance(ROUND)
    assert len(driver.checker.probed) == 2


async def test_refusal_when_it_is_due_then_it_is_told_once_the_server_has_refused_too(driver: Driver) -> None:
    await fenced(driver, OUR_PROJECT, THEIR_PROJECT)
    gate = driver.checker.gates[f"public {URL}"] = asyncio.Event()
    await driver.apply(THEIR_APPLICATION)
    assert driver.reports.of("app") == []
    gate.set()
    await settle()
    assert driver.reports.of("app") == [needs_login(THEIR_APPLICATION)]


async def test_refusal_when_the_spec_changes_then_the_server_is_asked_once_more(driver: Driver) -> None:
    await fenced(driver, OUR_PROJECT, THEIR_PROJECT)
    await driver.apply(THEIR_APPLICATION)
    changed = application_row("app", lane=THEIRS, repoURL=URL, path="elsewhere")
    await driver.apply(changed)
    assert len(driver.checker.probed) == 2
    assert driver.reports.of("app")[-1] == needs_login(changed)


async def test_refused_repository_when_it_has_become_public_then_it_is_deployed_and_nobody_was_refused(
    driver: Driver,
) -> None:
    await fenced(driver, OUR_PROJECT, THEIR_PROJECT)
    driver.checker.public.add(URL)
    await driver.apply(THEIR_APPLICATION)
    assert driver.cluster.names("Application") == ["app"]
    assert not [event for event in driver.reports.of("app") if isinstance(event, Failed)]


async def test_sync_when_its_application_is_not_made_for_want_of_a_login_then_it_is_refused_too(
    driver: Driver,
) -> None:
    await fenced(driver, OUR_PROJECT, THEIR_PROJECT)
    gate = driver.checker.gates[f"public {URL}"] = asyncio.Event()
    order = replace(sync_row(name="app"), lane=THEIRS)
    await driver.apply(THEIR_APPLICATION, order)
    assert driver.reports.of("app") == []
    gate.set()
    await settle()
    assert needs_login(order) in driver.reports.of("app")


async def test_deployed_application_when_it_turns_to_anothers_repository_then_it_is_synced_to_nothing_until_it_may(
    driver: Driver,
) -> None:
    await fenced(driver, OUR_PROJECT, THEIR_PROJECT)
    await driver.apply(automated(PUBLIC))
    turned, order = automated(URL), replace(sync_row(name="app"), lane=THEIRS)
    await driver.apply(turned, order)
    spec = driver.cluster.objects["Application", "app"]["spec"]
    assert (spec["source"]["repoURL"], spec["syncPolicy"]) == (PUBLIC, {"retry": {"limit": -1}})
    assert "operation" not in driver.cluster.objects["Application", "app"]
    assert needs_login(order) in driver.reports.of("app")
    finds(driver, THEIR_LOGIN, RepositoryAccess.LOGIN)
    await driver.apply(THEIR_LOGIN)
    spec = driver.cluster.objects["Application", "app"]["spec"]
    assert (spec["source"]["repoURL"], "automated" in spec["syncPolicy"]) == (URL, True)


async def test_question_when_the_url_has_other_letters_then_its_answer_would_prove_nothing(driver: Driver) -> None:
    other = "https://example.com/team/REPO"
    driver.checker.public.add(other)
    await fenced(driver, *BOTH, application_row("other", lane=THEIRS, repoURL=other))
    await driver.clock.advance(ROUND)
    assert listed(driver, THEIRS) == [PUBLIC]


@pytest.mark.parametrize("access", [RepositoryAccess.LOGIN, RepositoryAccess.ANYBODY])
async def test_login_when_its_url_has_other_letters_than_the_private_one_then_it_opens_nothing(
    driver: Driver, access: RepositoryAccess
) -> None:
    await fenced(driver, *BOTH)
    other = "https://example.com/team/REPO"
    row = login("theirs", THEIRS, other)
    finds(driver, row, access, other)
    await driver.apply(row)
    message = f"spec.repository {credential.OTHER_LETTERS}"
    assert Checked(row.digest, "InvalidRepositoryUrl", message) in driver.reports.of("theirs")
    assert "theirs" not in driver.cluster.names("Secret")
    assert listed(driver, THEIRS) == [PUBLIC]


async def test_login_when_it_could_not_be_told_who_else_reads_then_it_waits_until_that_is_known(
    driver: Driver,
) -> None:
    finds(driver, OUR_LOGIN, RepositoryAccess.UNCLEAR)
    await fenced(driver, *BOTH)
    assert "ours" not in driver.cluster.names("Secret")
    finds(driver, OUR_LOGIN, RepositoryAccess.ANYBODY)
    await driver.clock.advance(61)
    assert "ours" in driver.cluster.names("Secret")
    finds(driver, OUR_LOGIN, RepositoryAccess.UNCLEAR)
    await driver.clock.advance(CHECK)
    assert listed(driver, THEIRS) == [LISTED, PUBLIC]


async def test_private_repository_when_it_could_not_be_told_who_else_reads_then_it_stays_private(
    driver: Driver,
) -> None:
    await fenced(driver, *BOTH)
    finds(driver, OUR_LOGIN, RepositoryAccess.UNCLEAR)
    await driver.clock.advance(CHECK)
    assert (listed(driver, OURS), listed(driver, THEIRS)) == ([LISTED, PUBLIC], [PUBLIC])


async def test_instance_when_nothing_on_it_is_private_then_nothing_is_asked_for_it(driver: Driver) -> None:
    await driver.begin(*BOTH)
    assert sorted(driver.cluster.calls) == [("create", name) for name in ("app", "our-app", OURS, THEIRS)]
    assert (driver.checker.composed, driver.checker.probed) == ([], [])


@pytest.mark.parametrize("why", [Rejected("no", 422), Wait("not yet")], ids=["refused", "to wait"])
async def test_reader_when_it_cannot_be_changed_then_it_is_tried_at_its_pace(driver: Driver, why: Exception) -> None:
    await driver.begin(*BOTH)
    driver.cluster.refusing[THEIRS] = why
    driver.cluster.calls.clear()
    await driver.apply(OUR_LOGIN)
    for _ in range(10):
        await settle()
    assert driver.cluster.calls.count(("apply", THEIRS)) <= 2
    driver.cluster.refusing.clear()
    await driver.clock.advance(ROUND)
    await over(driver)
    assert LISTED not in listed(driver, THEIRS)
    assert ("Secret", OUR_LOGIN.name) in driver.cluster.objects


async def test_tenant_when_it_has_had_all_that_it_may_then_its_next_login_is_refused_and_no_other_tenants(
    driver: Driver,
) -> None:
    earlier = PrivateRepositoryRegistry(driver.cluster, "argocd")
    for number in range(TENANT_LIMIT):
        earlier.add_repository(identity_of(f"https://hostile.example/{number}"), OURS)
    await earlier.save_all()
    finds(driver, THEIR_LOGIN, RepositoryAccess.LOGIN)
    await driver.begin(*BOTH, OUR_LOGIN)
    await over(driver)
    checks = [event for event in driver.reports.of("ours") if isinstance(event, Checked)]
    assert checks[-1].message == f"spec.repository {credential.NO_ROOM}"
    assert "ours" not in driver.cluster.names("Secret")
    await driver.apply(THEIR_LOGIN)
    await over(driver)
    assert "theirs" in driver.cluster.names("Secret")


@pytest.mark.parametrize("complete", [True, False])
async def test_repository_when_nobody_names_it_any_more_then_it_is_forgotten_with_the_repo_servers_disk(
    driver: Driver, complete: bool
) -> None:
    driver.instance.start()
    await settle()
    driver.instance.start_work([OUR_PROJECT], complete=complete)
    await driver.apply(OUR_LOGIN)
    await over(driver)
    await driver.apply(replace(OUR_PROJECT, desired="absent"), replace(OUR_LOGIN, desired="absent"))
    await driver.clock.advance(EXPIRY_SECONDS + 1)
    await driver.clock.advance(SETTLED.total_seconds())
    label, _, value = REPO_SERVERS.partition("=")
    began = {"creationTimestamp": driver.clock.now().isoformat(), "labels": {label: value}}
    assert REGISTRY in driver.cluster.names("Secret")
    driver.cluster.put("Pod", "repo-server", {"metadata": began, "spec": {}})
    await driver.clock.advance(EXPIRY_SECONDS + 1)
    assert (REGISTRY in driver.cluster.names("Secret")) is not complete

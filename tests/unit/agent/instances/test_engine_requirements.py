"""What an Argo CD lacks that is not as tenancy needs it, and when that is reason to deploy nothing new by it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
import yaml

from devstack.toolchain.install import ARGOCD_SOURCES, ARGOCD_VARIANTS
from services.agent.instances.engine_requirements import Acceptance, Found, Verdict, verdicts
from services.agent.instances.workload_requirements import GENERATORS, PARAMETERS, Workloads
from services.common.argocd_names import INSTALLATION_ID
from services.common.argocd_versions import TESTED
from services.common.kubernetes import Manifest
from tests.unit.agent.instances.shipped import CONFIG, PROJECT, SHIPPED, workloads_of

NEEDED = (
    "resource.exclusions", "installationID", "application.resourceTrackingMethod", "resource.respectRBAC",
    "jsonnet.enable", "helm.valuesFileSchemes",
)  # fmt: skip
ALL = "Application, ApplicationSet, AppProject"
PERMISSIVE = {"spec": {"sourceRepos": ["*"], "destinations": [{"server": "*", "namespace": "*"}]}}


def exclusions(*entries: Mapping[str, Any]) -> str:
    return yaml.safe_dump([*entries])


def verdict(
    workloads: Workloads | None = None, config: Mapping[str, str] | None = CONFIG, unserved: tuple[str, ...] = ()
) -> Verdict:
    found = Found(config, PROJECT, workloads or workloads_of("v3.2.11"), unserved)
    return verdicts({"one": found}, Acceptance())["one"]


def of_one(config: Mapping[str, str] | None = CONFIG, project: Manifest | None = PROJECT) -> list[str]:
    return [*verdicts({"one": Found(config, project, workloads_of("v3.2.11"))}, Acceptance())["one"].shortcomings]


def test_engine_when_it_has_what_is_shipped_then_it_lacks_nothing() -> None:
    assert of_one() == []


@pytest.mark.parametrize("missing", NEEDED)
def test_engine_when_a_setting_is_missing_then_it_is_named(missing: str) -> None:
    (told,) = of_one({name: value for name, value in CONFIG.items() if name != missing})
    assert told.startswith(missing)


@pytest.mark.parametrize("text", [
    exclusions({"apiGroups": ["argoproj.io"], "kinds": ["*"]}),
    exclusions({"apiGroups": ["argoproj.*"]}),
    exclusions({"apiGroups": ["argoproj.io"], "kinds": ["Application", "AppProject"]}, {"kinds": ["ApplicationSet"]}),
])  # fmt: skip
def test_exclusions_when_they_cover_every_kind_in_other_words_then_that_will_do(text: str) -> None:
    assert of_one(CONFIG | {"resource.exclusions": text}) == []


@pytest.mark.parametrize(("text", "kinds"), [
    (exclusions({"apiGroups": ["argoproj.io"], "kinds": ["Application"]}), "ApplicationSet, AppProject"),
    (exclusions({"apiGroups": ["argoproj.io"], "clusters": ["https://one"]}), ALL),
    ("{", ALL),
    ("word", ALL),
    ("[word]", ALL),
    (exclusions({"apiGroups": "argoproj.io", "kinds": 5}), ALL),
])  # fmt: skip
def test_exclusions_when_they_leave_a_kind_out_then_it_is_named(text: str, kinds: str) -> None:
    (told,) = of_one(CONFIG | {"resource.exclusions": text})
    assert f" {kinds} of argoproj.io" in told


def test_installation_id_when_it_is_not_the_fleets_then_that_is_told() -> None:
    (told,) = of_one(CONFIG | {"installationID": "another"})
    assert told.startswith(f"installationID is not '{INSTALLATION_ID}'")


def test_installation_id_when_operators_say_which_the_fleets_is_then_that_one_will_do() -> None:
    found = {"one": Found(CONFIG | {"installationID": "another"}, PROJECT, workloads_of("v3.2.11"))}
    assert verdicts(found, Acceptance(installation_id="another"))["one"].shortcomings == ()


@pytest.mark.parametrize(("name", "value"), [
    ("jsonnet.enable", "true"),
    ("helm.valuesFileSchemes", "https"),
    ("kustomize.buildOptions", "--enable-helm"),
    ("kustomize.buildOptions.v5.8.1", "--enable-exec"),
    ("kustomize.path.v4.0.0", "/custom/kustomize"),
])  # fmt: skip
def test_generators_when_a_repository_may_have_more_done_then_the_setting_is_named(name: str, value: str) -> None:
    (told,) = of_one(CONFIG | {name: value})
    assert told.startswith(name)


def test_config_when_there_is_none_then_that_is_all_that_is_said_of_it() -> None:
    assert of_one(None) == ["there is no ConfigMap argocd-cm"]


@pytest.mark.parametrize(("project", "word"), [(None, "there is no AppProject"), (PERMISSIVE, "permits")])
def test_default_project_when_it_is_not_one_that_permits_nothing_then_it_is_told(
    project: Manifest | None, word: str
) -> None:
    (told,) = of_one(project=project)
    assert word in told


@pytest.mark.parametrize(("name", "missing"), [
    (name, key)
    for name in ("argocd-cm", PARAMETERS)
    for key in SHIPPED[name]["data"]
    if key != "kustomize.buildOptions"  # which must not be there, or be empty
])  # fmt: skip
def test_shipped_setting_when_it_is_dropped_then_the_agents_miss_it(name: str, missing: str) -> None:
    data = {key: value for key, value in SHIPPED[name]["data"].items() if key != missing}
    config, parameters = (data, None) if name == "argocd-cm" else (CONFIG, data)
    (told,) = verdict(workloads_of("v3.2.11", parameters=parameters), config).shortcomings
    assert told.startswith(missing)


def without(*path: Any) -> Workloads:
    """As shipped, but for one thing of the repo server."""
    found = workloads_of("v3.2.11")
    place: Any = found.repo_server
    for step in path[:-1]:
        place = place[step]
    del place[path[-1]]
    return found


POD = ("spec", "template", "spec")
CONTAINER = (*POD, "containers", 0)


@pytest.mark.parametrize(("path", "words"), [
    ((*CONTAINER, "env", 0), "kustomize and helm of argocd-repo-server"),  # PATH
    ((*CONTAINER, "env", 1), "kustomize and helm of argocd-repo-server"),  # GENERATORS_FOLDER
    ((*CONTAINER, "env", 2), "ARGOCD_EXEC_TIMEOUT"),
    ((*CONTAINER, "volumeMounts", 0), "kustomize and helm of argocd-repo-server"),
    ((*CONTAINER, "resources", "limits", "memory"), "argocd-repo-server has no limit of memory"),
    ((*CONTAINER, "resources", "limits", "ephemeral-storage"), "argocd-repo-server has no limit of ephemeral-storage"),
    ((*POD, "volumes", 0), "kustomize and helm of argocd-repo-server"),
    ((*POD, "volumes", 0, "configMap", "items", 1), "helm of argocd-repo-server"),
])  # fmt: skip
def test_repo_server_when_something_shipped_is_dropped_then_the_agents_miss_it(
    path: tuple[Any, ...], words: str
) -> None:
    (told,) = verdict(without(*path)).shortcomings
    assert told.startswith(words)


@pytest.mark.parametrize("limit", ["memory", "ephemeral-storage"])
def test_controller_when_a_limit_shipped_is_dropped_then_the_agents_miss_it(limit: str) -> None:
    found = workloads_of("v3.2.11")
    controller: Any = found.controller
    del controller["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"][limit]
    (told,) = verdict(found).shortcomings
    assert told.startswith(f"argocd-application-controller has no limit of {limit}")


@pytest.mark.parametrize("variable", ["ARGOCD_K8S_TCP_TIMEOUT", "ARGOCD_K8S_SERVER_SIDE_TIMEOUT"])
def test_controller_when_its_calls_to_clusters_are_cut_off_then_the_agents_warn_of_it(variable: str) -> None:
    """Argo CD takes a list that was cut off for an empty one: seen on 3.2.11, with a cluster that answered no list."""
    found = workloads_of("v3.2.11")
    controller: Any = found.controller
    env = controller["spec"]["template"]["spec"]["containers"][0].setdefault("env", [])
    env.append({"name": variable, "value": "0s"})
    assert verdict(found).shortcomings == ()
    env[-1]["value"] = "60s"
    (told,) = verdict(found).shortcomings
    assert told.startswith(f"{variable} of argocd-application-controller is set: ")
    assert not verdict(found).refusal, "it is used as before"


@pytest.mark.parametrize("part", ["env -i", "ulimit -t", "ulimit -v", "HTTPS_PROXY=", "--skip-schema-validation"])
def test_script_when_a_part_of_it_is_dropped_then_the_agents_tell(part: str) -> None:
    script = SHIPPED[GENERATORS]["data"]["generator.sh"].replace(part, "")
    (told,) = verdict(workloads_of("v3.2.11", generators={"generator.sh": script})).shortcomings
    assert GENERATORS in told


@pytest.mark.parametrize(("value", "met"), [("false", True), ("true", False)])
def test_parameter_when_a_variable_has_a_value_of_its_own_then_that_counts(value: str, met: bool) -> None:
    found = workloads_of("v3.2.11", parameters=SHIPPED[PARAMETERS]["data"] | {"reposerver.enable.git.submodule": ""})
    server: Any = found.repo_server
    server["spec"]["template"]["spec"]["containers"][0]["env"].append(
        {"name": "ARGOCD_GIT_MODULES_ENABLED", "value": value}
    )
    assert (verdict(found).shortcomings == ()) is met


def test_version_when_unpatched_and_every_compensation_is_in_force_then_it_is_accepted() -> None:
    assert (verdict().shortcomings, verdict().refusal) == ((), "")


@pytest.mark.parametrize(("tag", "refused"), [
    ("v3.1.16", True), ("v3.2.11", True), ("v3.3.19", True), ("v3.6.0", True), ("v3.6.1-rc1", True), ("latest", True),
    ("v3.7.0-rc1", True),
    ("v3.4.13", False), ("v3.5.7", False), ("v3.6.1", False), ("v3.7.0", False), ("v4.0.0", False),
])  # fmt: skip
def test_version_when_a_compensation_is_missing_then_it_is_refused_unless_it_is_patched(
    tag: str, refused: bool
) -> None:
    config = {name: value for name, value in CONFIG.items() if name != "jsonnet.enable"}
    told = verdict(workloads_of(tag), config)
    assert bool(told.refusal) is refused
    if refused and tag != "latest":
        assert tag[1:].removesuffix("1" if "rc" in tag else "") in told.refusal
        assert "jsonnet.enable" in told.refusal


@pytest.mark.parametrize("tag", [
    "v2.14.0", "v3.0.5", "v3.1.0", "v3.1.16-rc1", "v3.2.10", "v3.3.0", "v3.3.18", "v3.4.12", "v3.4.13-rc2", "v3.5.6",
    "v3.6.0-rc4",
])  # fmt: skip
@pytest.mark.parametrize("accepted", [Acceptance(), Acceptance(unseen=True, unisolated=True)])
def test_version_when_it_was_neither_tested_nor_read_then_it_is_refused_with_all_settings_in_force(
    tag: str, accepted: Acceptance
) -> None:
    told = verdicts({"one": Found(CONFIG, PROJECT, workloads_of(tag))}, accepted)["one"]
    assert told.shortcomings == ()
    assert "neither tested nor read" in told.refusal


@pytest.mark.parametrize("tag", ["v3.1.16", "v3.2.12", "v3.3.19", "v3.6.0", "v3.6.1-rc1", "v3.7.0-rc1"])
def test_version_when_it_is_known_and_all_settings_are_in_force_then_it_is_accepted(tag: str) -> None:
    assert verdict(workloads_of(tag)).refusal == ""


def test_versions_when_they_are_said_to_be_tested_then_they_are_those_that_are_built_here() -> None:
    pinned = [
        re.findall(r"argoproj/argo-cd/v3 v(\S+)", (ARGOCD_SOURCES / f"{variant}.mod").read_text())
        for variant in ARGOCD_VARIANTS.values()
    ]
    assert sorted(version for (version,) in pinned) == sorted(TESTED)


def unisolated() -> dict[str, Found]:
    """By what it lacks of what keeps tenants apart; of a version with every fix."""
    patched = workloads_of("v3.6.1")
    bare = {name: value for name, value in CONFIG.items() if name != "resource.exclusions"}
    unwrapped = workloads_of("v3.6.1", generators={})
    return {
        "exclusions": Found(bare, PROJECT, patched),
        "installation id": Found(CONFIG | {"installationID": ""}, PROJECT, patched),
        "tracking": Found(CONFIG | {"application.resourceTrackingMethod": "label"}, PROJECT, patched),
        "kustomize": Found(CONFIG | {"kustomize.buildOptions": "--enable-exec"}, PROJECT, patched),
        "config": Found(None, PROJECT, patched),
        "default project": Found(CONFIG, PERMISSIVE, patched),
        "no default project": Found(CONFIG, None, patched),
        "rights": Found(CONFIG, PROJECT, patched, excessive_rights=("roles", "rolebindings")),
        "generators": Found(CONFIG, PROJECT, unwrapped),
        "repo server": Found(CONFIG, PROJECT, replace(patched, repo_server=None)),
        "controller": Found(CONFIG, PROJECT, replace(patched, controller=None)),
    }


@pytest.mark.parametrize("lacking", unisolated())
def test_isolation_when_something_of_it_is_missing_then_no_version_is_accepted_unless_operators_do(
    lacking: str,
) -> None:
    engines = {"one": unisolated()[lacking]}
    refused = verdicts(engines, Acceptance(unseen=True))["one"]
    assert "3.6.1 does not keep tenants apart" in refused.refusal
    assert not refused.is_unisolated
    used = verdicts(engines, Acceptance(unisolated=True))["one"]
    assert (used.refusal, used.is_unisolated) == ("", True)


@pytest.mark.parametrize("found", [
    Found(CONFIG, PERMISSIVE, workloads_of("v3.2.11")),
    Found(CONFIG, PROJECT, replace(workloads_of("v3.2.11"), controller=None)),
], ids=["default project", "controller"])  # fmt: skip
def test_isolation_when_an_unpatched_version_lacks_it_then_nobody_can_accept_that(found: Found) -> None:
    assert "3.2.11 lacks fixes" in verdicts({"one": found}, Acceptance(unseen=True, unisolated=True))["one"].refusal


def test_isolation_when_an_unseen_engine_lacks_it_then_accepting_unseen_ones_is_not_enough() -> None:
    found = {"one": Found(CONFIG, PERMISSIVE, Workloads(parameters=SHIPPED[PARAMETERS]["data"]))}
    assert "does not keep tenants apart" in verdicts(found, Acceptance(unseen=True))["one"].refusal
    assert verdicts(found, Acceptance(unseen=True, unisolated=True))["one"].refusal == ""


@pytest.mark.parametrize("name", ["jsonnet.enable", "helm.valuesFileSchemes", "resource.respectRBAC"])
def test_setting_when_isolation_does_not_rest_on_it_then_a_patched_version_is_accepted_without_it(name: str) -> None:
    config = {key: value for key, value in CONFIG.items() if key != name}
    told = verdict(workloads_of("v3.4.13"), config)
    assert (len(told.shortcomings), told.refusal) == (1, "")


def test_version_when_one_of_two_workloads_is_upgraded_then_the_older_counts() -> None:
    found = workloads_of("v3.4.13")
    server: Any = found.repo_server
    server["spec"]["template"]["spec"]["containers"][0]["image"] = "quay.io/argoproj/argocd:v3.2.11@sha256:00"
    assert str(verdict(found).version) == "3.2.11"


def test_version_when_an_image_has_only_a_digest_then_the_label_tells() -> None:
    found = workloads_of("", labels={"app.kubernetes.io/version": "v3.4.13"}, image="registry:5000/argocd@sha256:00")
    assert str(verdict(found).version) == "3.4.13"


@pytest.mark.parametrize("accept_unseen", [False, True])
def test_engine_when_its_workloads_have_other_names_then_it_is_refused_unless_operators_accept_that(
    accept_unseen: bool,
) -> None:
    unseen = {"one": Found(CONFIG, PROJECT, Workloads(parameters=SHIPPED[PARAMETERS]["data"]))}
    told = verdicts(unseen, Acceptance(unseen=accept_unseen))["one"].refusal
    words = ("argocd-repo-server", "argocd-application-controller", "ACCEPT_UNSEEN_ENGINES")
    assert [word in told for word in words] == [not accept_unseen] * 3


def test_engine_when_it_is_not_to_be_seen_then_that_is_told() -> None:
    told = verdict(Workloads(parameters=SHIPPED[PARAMETERS]["data"]), None)
    assert [each.split(":")[0] for each in told.shortcomings] == [
        "there is no ConfigMap argocd-cm", "there is no argocd-repo-server nor argocd-application-controller",
    ]  # fmt: skip


def test_schema_when_it_drops_what_we_need_then_even_a_patched_version_is_refused() -> None:
    told = verdict(workloads_of("v3.6.1"), unserved=("AppProject.spec.destinations",))
    assert "AppProject.spec.destinations" in told.refusal

"""What a stack consists of with real Argo CD, and without."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from devstack.components import all_nodes
from devstack.components.stack import ENGINE_NAMESPACES, Stack
from devstack.harness.run import StackOptions, require_consistent
from devstack.paths import ROOT
from devstack.toolchain.gobuild import ARGOCD, Build
from devstack.toolchain.install import ARGOCD_SOURCES, ARGOCD_VARIANTS, NEWEST_ARGOCD
from services.common.errors import InvalidConfiguration

ONLY_WITH_ARGOCD = ("argocd-", "git-", "remote-")


def test_stack_when_without_argocd_then_nothing_of_it_is_there(simulator_stack: Stack) -> None:
    names = {node.name for node in all_nodes(simulator_stack, infrastructure_only=False)}
    assert {name for name in names if name.startswith(ONLY_WITH_ARGOCD)} == {"argocd-simulator"}
    assert "REMOTE_KUBECONFIG" not in simulator_stack.environment()


def test_stack_when_with_argocd_then_each_engine_has_an_instance_and_there_is_no_simulator(argocd_stack: Stack) -> None:
    nodes = {node.name: node for node in all_nodes(argocd_stack, infrastructure_only=False)}
    assert "argocd-simulator" not in nodes
    for number, namespace in enumerate(ENGINE_NAMESPACES, 1):
        assert f"--namespace={namespace}" in nodes[f"argocd-application-controller-{number}"].argv
        assert {f"argocd-repo-server-{number}", f"argocd-redis-{number}"} <= nodes.keys()


def test_stack_when_with_argocd_then_whatever_a_process_waits_for_exists(argocd_stack: Stack) -> None:
    nodes = all_nodes(argocd_stack, infrastructure_only=False)
    names = {node.name for node in nodes}
    assert [(node.name, name) for node in nodes for name in node.depends_on if name not in names] == []


def test_stack_when_with_argocd_then_no_secret_is_on_a_command_line(argocd_stack: Stack) -> None:
    words = " ".join(word for node in all_nodes(argocd_stack, infrastructure_only=False) for word in node.argv)
    assert [name for name, value in argocd_stack.secrets.items() if value in words] == []


def test_repo_servers_when_a_repository_has_submodules_then_they_do_not_follow_them(argocd_stack: Stack) -> None:
    nodes = {node.name: node for node in all_nodes(argocd_stack, infrastructure_only=False)}
    for instance in argocd_stack.argocd_instances():
        assert nodes[instance.process("repo-server")].env["ARGOCD_GIT_MODULES_ENABLED"] == "false"
    assert "ARGOCD_GIT_MODULES_ENABLED=false" in (ROOT / "k8s" / "README.md").read_text()


def test_instances_when_only_the_first_names_a_version_then_the_others_run_the_newest(
    argocd_stack: Stack, tmp_path: Path
) -> None:
    stack = replace(argocd_stack, tools=replace(argocd_stack.tools, argocd_versions=(tmp_path / "before",)))
    nodes = {node.name: node for node in all_nodes(stack, infrastructure_only=False)}
    for instance, folder in zip(stack.argocd_instances(), ("before", "argocd"), strict=True):
        for component in ("repo-server", "application-controller"):
            program, *_ = nodes[instance.process(component)].argv
            assert program == str(tmp_path / folder / "bin" / f"argocd-{component}")
    assert str(tmp_path / "argocd" / "crds") in nodes["argocd-crds-apply"].argv


def test_versions_when_read_from_their_pins_then_they_are_what_they_are_called() -> None:
    for version, variant in ARGOCD_VARIANTS.items():
        assert Build(ARGOCD_SOURCES, ARGOCD, variant).version().startswith(f"v{version}.")
    assert next(iter(ARGOCD_VARIANTS)) == NEWEST_ARGOCD


def test_argocd_when_it_is_to_look_for_commits_seldom_then_every_controller_does(argocd_stack: Stack) -> None:
    stack = replace(argocd_stack, poll_seconds=120)
    nodes = {node.name: node for node in all_nodes(stack, infrastructure_only=False)}
    for instance in stack.argocd_instances():
        assert "--app-resync=120" in nodes[instance.process("application-controller")].argv


@pytest.mark.parametrize(("argocd", "pods"), [(False, False), (True, True)], ids=["without Argo CD", "as pods"])
def test_poll_when_nothing_would_take_it_then_it_is_refused(argocd: bool, pods: bool) -> None:
    options = StackOptions(
        infrastructure_only=False, without=(), fresh=False, durable=False, argocd=True, poll_seconds=120
    )
    require_consistent(options)
    with pytest.raises(InvalidConfiguration, match="--poll"):
        require_consistent(replace(options, argocd=argocd, pods=pods))

"""The smaller parts of the local stack: its folder, its overlaid files, its build's name, its keys."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from cryptography import x509

from devstack.components.java import class_path, overlaid
from devstack.stack.pki import Account, Pki
from devstack.stack.state_folder import State
from devstack.toolchain import install as toolchain
from devstack.toolchain.gobuild import ARGOCD, HELM, KUBERNETES, KUSTOMIZE, Build, Product
from services.common.errors import InvalidConfiguration


@pytest.fixture
def state(tmp_path: Path) -> State:
    state = State(tmp_path / "state")
    state.prepare()
    return state


def test_state_when_made_then_it_is_closed_to_others(state: State) -> None:
    assert state.root.stat().st_mode & 0o777 == 0o700


def test_state_when_wiped_then_only_what_a_running_supervisor_uses_is_left(state: State) -> None:
    with state.sole_owner():
        state.supervisor_log.write_text("now")
        state.log("kafka").write_text("then")
        (state.folder("kafka") / "data").write_text("…")
        state.secrets()
        state.wipe()
        left = {str(path.relative_to(state.root)) for path in state.root.rglob("*")}
    assert left == {".gitops-stack", "lock", "logs", "logs/supervisor.log"}


def test_state_when_it_has_an_owner_then_no_other_gets_it(state: State) -> None:
    with state.sole_owner(), pytest.raises(InvalidConfiguration, match="a stack is running"), state.sole_owner():
        pass


def test_state_when_its_owner_is_gone_then_it_is_to_be_had_again(state: State) -> None:
    for _ in range(2):
        with state.sole_owner():
            pass


def test_secrets_when_asked_for_again_then_they_are_the_same_and_all_different(state: State) -> None:
    assert state.secrets() == state.secrets()
    assert len(set(state.secrets().values())) == len(state.secrets())


def test_logs_when_a_run_begins_then_those_of_the_last_are_kept_aside(state: State) -> None:
    state.log("kafka").write_text("last run")
    state.begin_logs()
    assert not state.log("kafka").exists()
    assert (state.logs / "kafka.log.1").read_text() == "last run"


def test_properties_when_overlaid_then_values_are_replaced_and_added(tmp_path: Path) -> None:
    base = tmp_path / "a.properties"
    base.write_text("# why\na=1\nb = 2\n")
    assert overlaid(base, {"b": 3, "c": "x"}) == "# why\na=1\nb=3\nc=x\n"


def test_class_path_when_made_then_its_order_is_that_of_the_names(tmp_path: Path) -> None:
    for name in ("b.jar", "a.jar", "readme.txt"):
        (tmp_path / name).touch()
    assert class_path(tmp_path) == f"{tmp_path / 'a.jar'}:{tmp_path / 'b.jar'}"


@pytest.fixture
def build(tmp_path: Path) -> Build:
    """A build of a copy of the real modules."""
    for name in ("go.mod", "go.sum"):
        shutil.copy(toolchain.SOURCES / name, tmp_path / name)
    return Build(tmp_path, KUBERNETES)


@pytest.mark.parametrize("name", ["go.mod", "go.sum", "main.go"])
def test_build_when_a_pinned_module_changes_then_it_has_another_key(build: Build, name: str) -> None:
    before = build.key()
    with (build.modules / name).open("a") as file:
        file.write("\n// changed\n")
    assert build.key() != before


def test_build_when_linked_then_the_programs_know_their_version(build: Build) -> None:
    version = build.version()
    assert f"version.gitVersion={version} " in build.link_flags()
    assert "gitMajor=1 " in build.link_flags()


def test_build_when_it_is_argocds_then_its_module_pins_the_same_kubernetes(build: Build) -> None:
    argocd = Build(toolchain.ARGOCD_SOURCES, ARGOCD)
    assert argocd.link_flags() == f"-s -w -X github.com/argoproj/argo-cd/v3/common.version={argocd.version()}"
    own = (toolchain.ARGOCD_SOURCES / "go.mod").read_text()
    assert f"k8s.io/client-go => k8s.io/client-go {build.version().replace('v1.', 'v0.', 1)}\n" in own


def test_build_when_it_pins_no_kubernetes_then_the_file_is_named(build: Build) -> None:
    (build.modules / "go.mod").write_text("module x\n")
    with pytest.raises(InvalidConfiguration, match=r"go\.mod does not require k8s\.io/kubernetes"):
        build.version()


@pytest.mark.parametrize("package", KUBERNETES.packages.values())
def test_build_when_it_builds_a_program_then_go_mod_keeps_its_modules(package: str) -> None:
    assert f"\t{package}\n" in (toolchain.SOURCES / "go.mod").read_text().partition("tool (")[2]


@pytest.mark.parametrize(
    ("sources", "product", "major"),
    [(toolchain.KUSTOMIZE_SOURCES, KUSTOMIZE, "v5."), (toolchain.HELM_SOURCES, HELM, "v3.")],
)
def test_build_when_it_is_a_generators_then_go_mod_keeps_its_module(
    sources: Path, product: Product, major: str
) -> None:
    assert Build(sources, product).version().startswith(major)
    (package,) = product.packages.values()
    assert f"tool {package}\n" in (sources / "go.mod").read_text()


@pytest.mark.parametrize("write", [lambda pki: pki.ensure("127.0.0.1"), lambda pki: pki.ensure("kube-apiserver")])
def test_credentials_when_made_then_the_kubeconfig_holds_the_authority_and_no_file_is_open_to_others(
    tmp_path: Path, write: Callable[[Pki], None]
) -> None:
    pki = Pki(tmp_path / "pki")
    write(pki)
    pki.admit("token-1", "https://host:6443", tmp_path / "pki" / "kubeconfig")
    config = yaml.safe_load((pki.folder / "kubeconfig").read_text())
    assert config["clusters"][0]["cluster"]["server"] == "https://host:6443"
    assert config["users"][0]["user"]["token"] == "token-1"
    assert [path for path in pki.folder.iterdir() if path.stat().st_mode & 0o077] == []


def test_credentials_when_a_service_has_an_account_then_its_kubeconfig_holds_its_own_token_only(tmp_path: Path) -> None:
    pki = Pki(tmp_path / "pki")
    pki.ensure("127.0.0.1")
    account = Account("gitops-service", "watcher", "token-2", tmp_path / "watcher.kubeconfig")
    pki.admit("token-1", "https://host:6443", tmp_path / "kubeconfig", [account])
    config = yaml.safe_load(account.kubeconfig.read_text())
    assert [user["user"] for user in config["users"]] == [{"token": "token-2"}]
    user = "system:serviceaccount:gitops-service:watcher"
    groups = "system:serviceaccounts,system:serviceaccounts:gitops-service"
    assert f'token-2,{user},{user},"{groups}"' in pki.tokens.read_text().splitlines()
    assert account.kubeconfig.stat().st_mode & 0o077 == 0


def test_credentials_when_asked_for_again_then_they_stay(tmp_path: Path) -> None:
    pki = Pki(tmp_path)
    pki.ensure("127.0.0.1")
    before = pki.server_certificate.read_bytes()
    pki.ensure("127.0.0.1")
    assert pki.server_certificate.read_bytes() == before


def test_certificate_when_made_for_a_name_then_it_is_signed_by_the_authority(tmp_path: Path) -> None:
    pki = Pki(tmp_path)
    pki.ensure("kube-apiserver")
    authority = x509.load_pem_x509_certificate(pki.authority.read_bytes())
    server = x509.load_pem_x509_certificate(pki.server_certificate.read_bytes())
    server.verify_directly_issued_by(authority)
    names = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert "kube-apiserver" in names.get_values_for_type(x509.DNSName)

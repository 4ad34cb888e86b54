"""An operator who types what k8s/README.md says: their shell, and the files that they write."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from devstack.git.repository import Repository
from devstack.harness.hosted import HostedStack
from devstack.harness.operator import superusers_shell
from devstack.stack.identities import PRINCIPALS
from devstack.supervisor.health_checks import HOST
from devstack.toolchain import install as toolchain
from devstack.toolchain.gobuild import ARGOCD, Build
from services.cli.kafka.topics import password_variable
from tests.component.k8s.readme import blocks, carry_out, commands, secrets_of_the_table

ENGINE = "gitops-service-argocd"
OVERLAY = "k8s/overlays/mine"
ARGOCD_SECTION = "Argo CD in its engine namespaces"
ARGOCD_REPOSITORY = "https://github.com/argoproj/argo-cd"
OTHER_SECRETS = "kubectl -n gitops-service create secret generic …"
BACKUP_ACCESS = ("AWS_ENDPOINT_URL", "AWS_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")


@dataclass(frozen=True)
class Operator:
    """Where they stand, and what their shell knows."""

    folder: Path
    kubectl: Path
    environment: dict[str, str] = field(default_factory=dict)

    def type(self, command: str) -> str:
        """Carry out one command; returns what it prints."""
        return carry_out(command, self.folder, self.environment, self.kubectl)

    def keep(self, name: str, content: str) -> Path:
        """A file of theirs."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        return path


def equip(operator: Operator, servers: HostedStack, tokens: Mapping[str, str]) -> None:
    """Give them what the README takes for granted: the variables beside the commands, and two kustomizations."""
    operator.environment.update(variables(servers, tokens) | argocd_of_this_machine(operator))
    operator.keep(f"argocd/{ENGINE}/kustomization.yaml", "\n".join(blocks("yaml")[ARGOCD_SECTION]))
    shutil.copytree(operator.folder / "k8s" / "overlays" / "example", operator.folder / OVERLAY)
    change_overlay(operator.folder / OVERLAY / "kustomization.yaml", servers.environment)


def variables(servers: HostedStack, tokens: Mapping[str, str]) -> dict[str, str]:
    """Those that the README names."""
    secrets = servers.state.secrets()
    principals = {password_variable(name): secrets[f"kafka-{name}"] for name in PRINCIPALS}
    own = {"SCHEMA_REGISTRY_TOKEN": tokens["operator"], "ENGINE_NAMESPACES": ENGINE}
    return servers.environment | superusers_shell(servers) | principals | own


def port_of(servers: HostedStack, process: str, name: str) -> int:
    """A port of a process of the stack, whether it runs or not."""
    (port,) = [item["ports"][name] for item in servers.processes() if item["name"] == process]
    return int(port)


def argocd_of_this_machine(operator: Operator) -> dict[str, str]:
    """Has git find Argo CD's manifests here, those of the version that is built here, instead of at GitHub."""
    source = Build(toolchain.ARGOCD_SOURCES, ARGOCD).source()
    files = {str(path.relative_to(source)): path.read_bytes() for path in (source / "manifests").rglob("*.yaml")}
    repository = Repository.create(operator.folder / "argo-cd.git")
    (release,) = {ref for command in commands(ARGOCD_SECTION) for ref in re.findall(r"\?ref=([\w.]+)", command)}
    repository.commit(files, branch=release)
    here = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": f"url.file://{operator.folder}/argo-cd.insteadOf"}
    return here | {"GIT_CONFIG_VALUE_0": ARGOCD_REPOSITORY}


def change_overlay(overlay: Path, environment: Mapping[str, str]) -> None:
    """Give the example's copy the addresses of these servers, and a single engine."""
    brokers = "kafka-1.kafka.svc.cluster.local:9093,kafka-2.kafka.svc.cluster.local:9093"
    decided = {
        brokers: environment["KAFKA_BOOTSTRAP_SERVERS"],
        "https://registry.kafka.svc.cluster.local:8443/apis/ccompat/v7": environment["SCHEMA_REGISTRY_URL"],
        "https://connect.kafka.svc.cluster.local:8083": environment["CONNECT_URL"],
        "  - engines/argocd-2\n": "",
    }
    text = overlay.read_text()
    for example, own in decided.items():
        assert example in text
        text = text.replace(example, own)
    overlay.write_text(text)


def make_secrets(operator: Operator, servers: HostedStack, tokens: Mapping[str, str]) -> None:
    """Those of the README's table, but for the keys, which have commands of their own."""
    contents = contents_of_secrets(servers, tokens)
    for name, keys in secrets_of_the_table().items():
        if not name.startswith("sealing-keys"):
            files = [(key, operator.keep(f"secrets/{name}/{key}", contents[name][key])) for key in keys]
            given = " ".join(f"--from-file {key}={path}" for key, path in files)
            operator.type(OTHER_SECRETS.replace("…", f"{name} {given}"))


def contents_of_secrets(servers: HostedStack, tokens: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """By name and key."""
    secrets, files = servers.state.secrets(), servers.state.root / "transport"
    place = f"{HOST}:{port_of(servers, 'postgres', 'sql')}/gitops"
    checked = "sslmode=verify-full&sslrootcert=/authorities/database.crt"
    roles = ("planner", "owner", "backup")
    urls = {role: f"postgresql://gitops_{role}:{secrets[role]}@{place}?{checked}" for role in roles}
    principals = {"watcher": "watcher-local", "planner": "planner", "agent": "agent-default"}
    return {
        **{f"kafka-{service}": {"password": secrets[f"kafka-{name}"]} for service, name in principals.items()},
        **{f"registry-{service}": {"token": tokens[service]} for service in principals},
        **{f"database-{role}": {"url": url} for role, url in urls.items()},
        **{f"{server}-ca": {"ca.crt": (files / "ca.crt").read_text()} for server in ("kafka", "registry", "database")},
        "backup-store": {"BACKUP_STORE": "s3://backups/gitops"} | dict.fromkeys(BACKUP_ACCESS, "of a store"),
        "connector-keeper": {
            "tls.crt": (files / "keeper.crt").read_text(),
            "tls.key": (files / "keeper.key").read_text(),
            "ca.crt": (files / "connect-ca.crt").read_text(),
        },
    }

"""Real Argo CD: application controller, repo server and Redis, an independent instance per engine namespace."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from devstack.components.stack import Stack
from devstack.components.steps import CRDS, Command, sources
from devstack.paths import COMPOSE
from devstack.setup.argocd_requirements import (
    RIGHTS,
    controller_environment,
    install_generators,
    repo_server_environment,
)
from devstack.stack.argocd_instance import Instance
from devstack.supervisor.health_checks import HOST, http, says
from devstack.supervisor.process import Node, Process, Step

CONFIGURATION = COMPOSE / "argocd"

RBAC, RBAC_OF_SPARES = "rbac.yaml", "spares.yaml"
"""The accounts of the application controllers, and their bindings; of spares, which Compose does not have."""
CONTROLLER_NEEDS = ("kube-controller-manager", "argocd-crds-apply", "argocd-rbac-apply", "argocd-apply")


def nodes(stack: Stack) -> list[Node]:
    """Steps and processes."""
    processes = [process for instance in stack.argocd_instances() for process in _processes(stack, instance)]
    return [*_steps(stack), *processes]


def _processes(stack: Stack, instance: Instance) -> list[Process]:
    """Those of a spare are held."""
    is_spare = stack.spares and instance.namespace not in stack.engine_namespaces
    parts = (_redis(stack, instance), _repo_server(stack, instance), _controller(stack, instance))
    return [replace(part, held=is_spare) for part in parts]


def commands(crds: Path, *rbac: str) -> tuple[Command, ...]:
    """The steps, after those of every stack; ``crds`` is the folder of Argo CD's own, the newest version's.

    What any Argo CD of ours may do is applied in any case; its accounts are in the files ``rbac``, bound to that.
    """
    config = str(CONFIGURATION / "config.yaml")
    accounts = [CONFIGURATION / file for file in rbac]
    namespaces = ("engine-namespaces",)
    return (
        # Over the excerpt that is there without Argo CD.
        Command("argocd-crds-apply", ("crds", "apply", *sources(crds)), (CRDS,)),
        Command("argocd-rbac-apply", ("rbac", "apply", *sources(RIGHTS, *accounts)), namespaces),
        # The keys of the git servers are made when these start.
        Command("argocd-apply", ("dev", "argocd", "--from", config), (*namespaces, CRDS, "git-ssh")),
    )


def _steps(stack: Stack) -> list[Step]:
    if stack.tools.argocd is None:
        raise RuntimeError("Argo CD takes no part in this stack")
    environment = stack.base_environment() | stack.environment()
    environment |= {"ENGINE_NAMESPACES": ",".join(stack.argocd_namespaces)}
    rbac = (RBAC, RBAC_OF_SPARES) if stack.spares else (RBAC,)
    wanted = commands(stack.tools.argocd / "crds", *rbac)
    return [Step(command.name, command.argv(), environment, command.depends_on) for command in wanted]


def _redis(stack: Stack, instance: Instance) -> Process:
    name = instance.process("redis")
    port = stack.ports[name]

    async def prepare() -> None:
        instance.configure_redis(port, HOST)

    return Process(
        name=name,
        argv=(str(stack.tools.valkey), str(instance.redis_configuration)),
        env=stack.base_environment(),
        ports={"redis": port},
        ready=says(port, f"AUTH {instance.redis_password}\r\nPING\r\n".encode(), b"+OK\r\n+PONG\r\n"),
        prepare=prepare,
    )


def _repo_server(stack: Stack, instance: Instance) -> Process:
    name, redis = instance.process("repo-server"), instance.process("redis")
    port, metrics = stack.ports[name], stack.ports[f"{name}-metrics"]

    async def prepare() -> None:
        site = stack.git_site()
        instance.mount({HOST: site.pki.authority.read_text()}, site.known_hosts.read_text())
        install_generators(instance.generators)

    return Process(
        name=name,
        argv=(
            str(instance.programs / "argocd-repo-server"),
            f"--address={HOST}",
            f"--port={port}",
            f"--metrics-address={HOST}",
            f"--metrics-port={metrics}",
            f"--redis={HOST}:{stack.ports[redis]}",
            "--revision-cache-expiration=1s",
            "--logformat=text",
        ),
        env=_environment(stack, instance)
        | {
            # An abstract socket: a state folder may be too deep for one with a path.
            "ARGOCD_ASK_PASS_SOCK": f"@argocd-ask-pass-{port}",
            "PATH": f"{instance.generators}:{_path(stack, instance)}",
            "GENERATORS_FOLDER": str(stack.tools.generators),
        }
        | repo_server_environment(),
        ports={"grpc": port, "metrics": metrics},
        ready=http(metrics, "/healthz?full=true"),
        depends_on=(redis, "git-https", "git-ssh"),
        prepare=prepare,
    )


def _controller(stack: Stack, instance: Instance) -> Process:
    name, redis, repo_server = (
        instance.process(component) for component in ("application-controller", "redis", "repo-server")
    )
    port, seen = stack.ports[name], stack.seen_by(name)
    kubeconfig = seen.kubeconfig_seen(instance.kubeconfig)

    async def prepare() -> None:
        seen.write_kubeconfigs(instance.kubeconfig)

    return Process(
        name=name,
        argv=(
            str(instance.programs / "argocd-application-controller"),
            f"--kubeconfig={kubeconfig}",
            f"--namespace={instance.namespace}",
            f"--metrics-port={port}",
            f"--redis={HOST}:{stack.ports[redis]}",
            f"--repo-server={HOST}:{stack.ports[repo_server]}",
            f"--app-resync={stack.poll_seconds}",
            "--app-resync-jitter=0",
            "--logformat=text",
        ),
        env=_environment(stack, instance)
        | {
            # The cluster that Argo CD calls its own is the one of this file.
            "ARGOCD_FAKE_IN_CLUSTER": "true",
            "KUBECONFIG": str(kubeconfig),
        }
        | controller_environment(),
        ports={"metrics": port},
        ready=http(port, "/healthz"),
        depends_on=(redis, repo_server, *(f"{instance.prefix}{needed}" for needed in CONTROLLER_NEEDS)),
        prepare=prepare,
    )


def _environment(stack: Stack, instance: Instance) -> dict[str, str]:
    return (
        stack.base_environment()
        | instance.paths()
        | {
            # A developer's own git configuration and keys are not Argo CD's.
            "GIT_CONFIG_NOSYSTEM": "1",
            "PATH": _path(stack, instance),
            "REDIS_PASSWORD": instance.redis_password,
            "ARGOCD_GPG_ENABLED": "false",
        }
    )


def _path(stack: Stack, instance: Instance) -> str:
    return f"{instance.programs}:{stack.base_environment()['PATH']}"

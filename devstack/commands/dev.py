"""``gitopsctl dev``: the whole product on one machine, without containers."""

from __future__ import annotations

import json
import os
import secrets
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from devstack.harness import control
from devstack.harness.faulty_links import FaultyLinks
from devstack.stack.clocks import set_clock
from devstack.stack.links import PORT_OF, Link
from devstack.stack.replicas import MOST_REPLICAS
from devstack.stack.second_cluster import MOST_ENGINE_CLUSTERS
from devstack.stack.state_folder import DEFAULT, READY, State
from devstack.supervisor.child import is_alive
from services.common.errors import InvalidConfiguration, Unavailable

app = typer.Typer(help="The whole product on this machine: start it, look at it, break it.", no_args_is_help=True)
link = typer.Typer(help="Cut, slow and mend one hop of one process ('dev up --links').", no_args_is_help=True)
app.add_typer(link, name="link")

DOWN_SECONDS = 40
LOOK_EVERY_SECONDS = 0.1
MEGABYTE = 1 << 20

StateOption = Annotated[
    Path,
    typer.Option("--state", envvar="GITOPS_STATE", resolve_path=True, help="Folder of the stack's data and logs."),
]
Name = Annotated[str, typer.Argument(help="A process, as named by 'dev status'.")]

Server = Annotated[str, typer.Argument(help=f"What it talks to: {', '.join(PORT_OF)}.")]


@app.command()
def up(  # noqa: PLR0913 - one for each option
    *,
    state_folder: StateOption = DEFAULT,
    detach: Annotated[bool, typer.Option("--detach", "-d", help="Return when it is ready; leave it running.")] = False,
    infra: Annotated[bool, typer.Option("--infra", help="Everything but our own services.")] = False,
    without: Annotated[list[str] | None, typer.Option("--without", help="Leave out this process.")] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Wipe the data of earlier runs first.")] = False,
    durable: Annotated[
        bool, typer.Option("--durable", help="Flush to the disk, so that data survives it all.")
    ] = False,
    argocd: Annotated[
        bool, typer.Option("--argocd", help="Real Argo CD, git servers and a second cluster; no simulator.")
    ] = False,
    argocd_version: Annotated[
        list[str] | None,
        typer.Option("--argocd-version", help="Of the first instance, of the second, …; the newest if left out."),
    ] = None,
    tls: Annotated[
        bool, typer.Option("--tls", help="Nothing in clear between the components; everybody shows who he is.")
    ] = False,
    pods: Annotated[
        bool, typer.Option("--pods", help="A node, and our services on it as pods, not as processes; needs root.")
    ] = False,
    bare: Annotated[
        bool,
        typer.Option("--bare", help="Servers alone, with nothing in them; what needs more is started by its name."),
    ] = False,
    replicas: Annotated[
        int, typer.Option(min=1, max=MOST_REPLICAS, help="How many planners and watchers; one watcher leads.")
    ] = 1,
    engine_clusters: Annotated[
        int,
        typer.Option(min=1, max=MOST_ENGINE_CLUSTERS, help="A second one shares nothing with the first."),
    ] = 1,
    spares: Annotated[
        bool,
        typer.Option("--spares", help="With --argocd: one instance; others wait to be started and added."),
    ] = False,
    poll: Annotated[
        int | None, typer.Option(min=1, help="With --argocd: after how many seconds it looks for new commits; 3.")
    ] = None,
    links: Annotated[
        bool, typer.Option("--links", help="A proxy in each hop, for 'dev link' to cut and slow.")
    ] = False,
    git: Annotated[
        bool, typer.Option("--git", help="Git servers without Argo CD, too: agents try logins there.")
    ] = False,
    clocks: Annotated[bool, typer.Option("--clocks", help="'dev clock' can set those of our services.")] = False,
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A setting of ours, in place of its default."),
    ] = None,
    registry_key: Annotated[
        Path | None,
        typer.Option(
            exists=True, dir_okay=False, resolve_path=True, help="With --tls: what signs the registry's tokens."
        ),
    ] = None,
    ready_fd: Annotated[int | None, typer.Option(hidden=True)] = None,
    silent_once_ready: Annotated[bool, typer.Option("--silent-once-ready", hidden=True)] = False,
) -> None:
    """Start the stack; the first time on a machine this downloads and builds for some minutes."""
    # Imported here: it takes longer than most commands of this file do.
    from devstack.components.stack import POLL_SECONDS  # noqa: PLC0415
    from devstack.harness import background, run  # noqa: PLC0415
    from devstack.toolchain import install as toolchain  # noqa: PLC0415
    from devstack.toolchain import packages  # noqa: PLC0415
    from devstack.toolchain.progress_bar import reporter  # noqa: PLC0415

    console = Console(highlight=False)
    options = run.StackOptions(
        infrastructure_only=infra or bare,
        without=tuple(without or ()),
        fresh=fresh,
        durable=durable,
        argocd=argocd,
        argocd_versions=tuple(argocd_version or ()),
        tls=tls,
        pods=pods,
        bare=bare,
        replicas=replicas,
        engine_clusters=engine_clusters,
        links=links,
        git=git,
        clocks=clocks,
        spares=spares,
        poll_seconds=poll or POLL_SECONDS,
        settings=tuple(setting or ()),
        registry_key=registry_key,
    )
    if detach and _is_ready(State(state_folder)):
        run.require_same_options(options, State(state_folder))
        console.print("the stack is up already")
        return
    run.require_consistent(options)
    if pods:
        packages.require(packages.NODE)
    with reporter(console) as report:
        versions = options.argocd_versions if argocd else ()
        tools = toolchain.install(report, argocd=argocd, versions=versions, tls=tls, pods=pods, links=links)
    if detach:
        background.start(State(state_folder), options, console)
        return
    announce = _announcer(console)

    def tell_ready() -> None:
        _tell_ready(announce, ready_fd)
        console.quiet = silent_once_ready  # the terminal is another program's from now on

    run.run(State(state_folder), tools, options, announce, tell_ready)


@app.command()
def down(state_folder: StateOption = DEFAULT) -> None:
    """End the stack; its data stays."""
    stack = State(state_folder)
    try:
        pid = control.ask(stack.control_socket, {"do": "status"})["pid"]
        control.ask(stack.control_socket, {"do": "down"})
    except Unavailable:
        Console().print("no stack is running", highlight=False)
        return
    deadline = time.monotonic() + DOWN_SECONDS
    while is_alive(pid):
        if time.monotonic() > deadline:
            raise Unavailable(f"the stack (pid {pid}) is still running after {DOWN_SECONDS} s")
        time.sleep(LOOK_EVERY_SECONDS)


@app.command()
def status(
    state_folder: StateOption = DEFAULT,
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
) -> None:
    """List every process: whether it is ready, its pid, ports and memory."""
    answer = control.ask(State(state_folder).control_socket, {"do": "status"})
    if as_json:
        typer.echo(json.dumps(answer, indent=1))
    else:
        Console().print(_table(answer["processes"]))


@app.command()
def env(
    state_folder: StateOption = DEFAULT,
    service: Annotated[str | None, typer.Option("--as", help="With what this service is given, no more.")] = None,
) -> None:
    """Print the stack's addresses and credentials as shell commands: eval "$(gitopsctl dev env)"."""
    stack = State(state_folder)
    control.ask(stack.control_socket, {"do": "status"})
    if service is None:
        variables = stack.recall("environment")
    elif (variables := stack.recall("services").get(service)) is None:
        raise InvalidConfiguration(f"--as {service}: there are {', '.join(stack.recall('services'))}")
    for name, value in variables.items():
        typer.echo(f"export {name}={shlex.quote(value)}")


@app.command()
def logs(
    name: Name,
    state_folder: StateOption = DEFAULT,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as it is written.")] = False,
    lines: Annotated[int, typer.Option("--lines", "-n", help="How many of the last lines.")] = 50,
) -> None:
    """Show the output of a process."""
    log = State(state_folder).log(name)
    if not log.exists():
        known = ", ".join(sorted(path.stem for path in log.parent.glob("*.log")))
        raise Unavailable(f"there is no log of '{name}'; there are {known or 'none'}")
    tail = shutil.which("tail") or "/usr/bin/tail"
    argv = [tail, "-n", str(lines), *(["-F"] if follow else []), str(log)]
    sys.exit(subprocess.run(argv, check=False).returncode)


@app.command()
def kill(name: Name, state_folder: StateOption = DEFAULT) -> None:
    """Kill one process with SIGKILL; the others go on."""
    control.ask(State(state_folder).control_socket, {"do": "kill", "name": name})


@app.command()
def start(name: Name, state_folder: StateOption = DEFAULT) -> None:
    """Start one process that was killed or has died; returns when it is ready."""
    control.ask(State(state_folder).control_socket, {"do": "start", "name": name})


@app.command()
def freeze(name: Name, state_folder: StateOption = DEFAULT) -> None:
    """Stop one process in its tracks with SIGSTOP: to the others it looks as if it hung."""
    control.ask(State(state_folder).control_socket, {"do": "freeze", "name": name})


@app.command()
def thaw(name: Name, state_folder: StateOption = DEFAULT) -> None:
    """Let a frozen process go on."""
    control.ask(State(state_folder).control_socket, {"do": "thaw", "name": name})


@app.command()
def clock(
    name: Name,
    seconds: Annotated[float, typer.Argument(help="By how much it is off from now on; 0: right again.")],
    state_folder: StateOption = DEFAULT,
) -> None:
    """Set the clock of one of our services ('dev up --clocks'), as if somebody set that of its machine."""
    set_clock(State(state_folder), name, seconds)


@link.command()
def cut(process: Name, server: Server, state_folder: StateOption = DEFAULT) -> None:
    """Let nothing through any more: connections stay, and hang."""
    FaultyLinks.of(State(state_folder)).cut(Link(process, server))


@link.command()
def slow(
    process: Name,
    server: Server,
    state_folder: StateOption = DEFAULT,
    latency: Annotated[int, typer.Option(min=0, help="Milliseconds by which each answer is late.")] = 0,
    bandwidth: Annotated[int, typer.Option(min=0, help="Kilobytes a second that get through each way.")] = 0,
) -> None:
    """Let everything through, but late, or little at a time."""
    links = FaultyLinks.of(State(state_folder))
    links.slow(Link(process, server), latency_ms=latency, kilobytes_per_second=bandwidth)


@link.command()
def mend(process: Name, server: Server, state_folder: StateOption = DEFAULT) -> None:
    """Take every fault away; connections that were cut are closed."""
    FaultyLinks.of(State(state_folder)).mend(Link(process, server))


@link.command("list")
def list_links(state_folder: StateOption = DEFAULT) -> None:
    """Show every link, and what is wrong with it."""
    table = Table("link", "fault", box=None)
    for name, faults in FaultyLinks.of(State(state_folder)).faults().items():
        table.add_row(name, ", ".join(faults))
    Console().print(table)


@app.command(hidden=True)
def prepare(
    argocd_crds: Annotated[Path | None, typer.Option(help="Folder of its CRDs: what Argo CD needs besides.")] = None,
) -> None:
    """Run every step that the services need, one after the other, on whatever the environment points to."""
    from devstack.components import argocd, steps  # noqa: PLC0415

    for step in argocd.commands(argocd_crds, argocd.RBAC) if argocd_crds else steps.COMMANDS:
        outcome = subprocess.run(step.argv(), check=False)
        if outcome.returncode != 0:
            sys.exit(outcome.returncode)


@app.command(hidden=True)
def credentials(folder: Path, accounts_folder: Path, host: str, port: int) -> None:
    """Make the certificates and keys of a cluster whose API server will be at HOST:PORT, and everybody's kubeconfig.

    Those are ACCOUNTS_FOLDER/NAME/kubeconfig, the administrator's with the name admin: whoever is given one of these
    folders has none of the others.
    """
    from devstack.components.stack import ENGINE_NAMESPACES  # noqa: PLC0415
    from devstack.stack.argocd_instance import CONTROLLER_ACCOUNT  # noqa: PLC0415
    from devstack.stack.identities import ACCOUNTS, ACCOUNTS_NAMESPACE  # noqa: PLC0415
    from devstack.stack.pki import Account, Pki  # noqa: PLC0415

    pki = Pki(folder)
    pki.ensure(host)
    if pki.tokens.exists():  # the API server read them when it started
        return
    holders = [(name, ACCOUNTS_NAMESPACE, name) for name in ACCOUNTS]
    holders += [(f"argocd-{number}", place, CONTROLLER_ACCOUNT) for number, place in enumerate(ENGINE_NAMESPACES, 1)]
    accounts = [
        Account(namespace, name, secrets.token_urlsafe(24), accounts_folder / folder / "kubeconfig")
        for folder, namespace, name in holders
    ]
    admin = accounts_folder / "admin" / "kubeconfig"
    pki.admit(secrets.token_urlsafe(24), f"https://{host}:{port}", admin, accounts)


@app.command(hidden=True)
def namespaces(
    kubeconfig: Annotated[Path, typer.Option(envvar="KUBECONFIG")],
    engine_namespaces: Annotated[str, typer.Option(envvar="ENGINE_NAMESPACES")],
) -> None:
    """Create the namespaces of the engine instances."""
    from devstack.setup import namespaces  # noqa: PLC0415

    namespaces.create(kubeconfig, engine_namespaces)


@app.command(hidden=True)
def argocd(
    kubeconfig: Annotated[Path, typer.Option(envvar="KUBECONFIG")],
    engine_namespaces: Annotated[str, typer.Option(envvar="ENGINE_NAMESPACES")],
    source: Annotated[Path, typer.Option("--from", help="Manifests for every instance.")],
    authority: Annotated[
        Path | None, typer.Option(envvar="GIT_AUTHORITIES", help="CA of the https git server.")
    ] = None,
    known_hosts: Annotated[
        Path | None, typer.Option(envvar="SSH_KNOWN_HOSTS", help="Public key of the ssh git server.")
    ] = None,
) -> None:
    """Configure the Argo CD instances."""
    from devstack.setup.argocd_configuration import configure  # noqa: PLC0415

    configure(kubeconfig, engine_namespaces, source, authority, known_hosts)


def _announcer(console: Console) -> Callable[[str], None]:
    began = time.monotonic()

    def announce(text: str) -> None:
        console.print(f"{time.monotonic() - began:6.1f} s  {text}", markup=False, soft_wrap=True)

    return announce


def _tell_ready(announce: Callable[[str], None], ready_fd: int | None) -> None:
    announce("everything is ready")
    if ready_fd is not None:
        os.write(ready_fd, READY)
        os.close(ready_fd)


def _is_ready(stack: State) -> bool:
    try:
        return bool(control.ask(stack.control_socket, {"do": "status"})["ready"])
    except Unavailable:
        return False


def _table(processes: list[dict[str, Any]]) -> Table:
    table = Table("name", "state", "pid", "memory", "ports", box=None)
    for item in processes:
        table.add_row(
            item["name"],
            f"[{'green' if item['ready'] else 'red'}]{item['phase']}",
            str(item["pid"] or ""),
            f"{item['memory'] / MEGABYTE:.0f} MB" if item["memory"] else "",
            " ".join(f"{name}={port}" for name, port in item["ports"].items()),
        )
    return table

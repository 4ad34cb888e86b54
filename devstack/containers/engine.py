"""A Docker engine of one's own: its data, socket and bridge are apart from any other's.

Images and what was built stay in the cache for the next one. Otherwise it leaves nothing behind.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from devstack.containers.firewall import has_link, left_as_found
from devstack.supervisor import trampoline
from devstack.supervisor.child import tail_of
from devstack.toolchain.cache import cache_root, locked
from devstack.toolchain.processes import output_of
from services.common.errors import Unavailable

BRIDGE = "gitops0"
BRIDGE_ADDRESS = "172.30.0.1/24"
NETWORKS = "base=172.31.0.0/16,size=24"
CONFIGURATION = {"builder": {"gc": {"enabled": True, "defaultKeepStorage": "10GB"}}}
READY_SECONDS = 60
END_SECONDS = 60
LOOK_EVERY_SECONDS = 0.1


@contextmanager
def engine() -> Iterator[str]:
    """Run an engine until the block ends; yields its address, as ``DOCKER_HOST`` has it.

    One at a time on a machine: another waits.

    Raises:
        Unavailable: it does not start.
    """
    cache_root().mkdir(parents=True, exist_ok=True)
    with locked(cache_root() / "engine.lock"):
        folder = Path(tempfile.mkdtemp(prefix="gitops-engine-"))
        _remove_bridge()  # of a run that was killed
        with left_as_found(BRIDGE):
            output_of("ip", "link", "add", "name", BRIDGE, "type", "bridge")
            try:
                output_of("ip", "address", "add", BRIDGE_ADDRESS, "dev", BRIDGE)
                output_of("ip", "link", "set", BRIDGE, "up")
                with _daemon(folder, cache_root() / "engine"):
                    _remove_remains(_address(folder))
                    yield _address(folder)
            finally:
                _remove_bridge()
                shutil.rmtree(folder, ignore_errors=True)


def _address(folder: Path) -> str:
    return f"unix://{folder / 'docker.sock'}"


@contextmanager
def _daemon(folder: Path, data: Path) -> Iterator[None]:
    log = folder / "dockerd.log"
    places = {"--data-root": data, "--exec-root": folder / "exec", "--pidfile": folder / "dockerd.pid"}
    options = [str(word) for place in places.items() for word in place]
    network = ["--bridge", BRIDGE, "--default-address-pool", NETWORKS]
    # It is told to end when this process ends, however that happens, and then ends its containers.
    tied = [sys.executable, "-I", "-S", trampoline.__file__, str(os.getpid()), str(int(signal.SIGTERM)), "keep"]
    command = [*tied, str(shutil.which("dockerd")), "--config-file", str(folder / "daemon.json"), *options, *network]
    (folder / "daemon.json").write_text(json.dumps(CONFIGURATION))
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, "--host", _address(folder)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C reaches whoever uses it; it ends after them
        )
    try:
        _await_ready(process, _address(folder), log)
        yield
    finally:
        process.terminate()
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _await_ready(process: subprocess.Popen[bytes], address: str, log: Path) -> None:
    deadline = time.monotonic() + READY_SECONDS
    asking = ["docker", "--host", address, "version"]
    while subprocess.run(asking, capture_output=True, check=False).returncode != 0:
        if process.poll() is not None or time.monotonic() > deadline:
            raise Unavailable(f"the Docker engine does not start; its last lines:\n{tail_of(log)}")
        time.sleep(LOOK_EVERY_SECONDS)


def _remove_remains(address: str) -> None:
    """Remove what an earlier run left in the data, which only a killed one does, and images that were replaced."""
    docker = ("docker", "--host", address)
    remains = {("rm", "--force", "--volumes"): ("ps", "--all"), ("volume", "rm"): ("volume", "ls")}
    for remove, listing in remains.items():
        if found := output_of(*docker, *listing, "--quiet").split():
            output_of(*docker, *remove, *found)
    for kind in ("network", "image"):
        output_of(*docker, kind, "prune", "--force")


def _remove_bridge() -> None:
    if has_link(BRIDGE):
        output_of("ip", "link", "delete", BRIDGE)

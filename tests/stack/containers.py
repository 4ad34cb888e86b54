"""Containers of pods as processes of this machine, for want of a node.

Each runs its own command with the environment and the files that the cluster's Secrets and ConfigMaps give it, and
nothing else. Root file system and network are the machine's, so three things differ: mounted folders lie below a folder
of the test's, metrics have a port of this machine, and a kubeconfig holds the token that would be mounted.
"""

from __future__ import annotations

import base64
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

from devstack.supervisor.child import tail_of
from devstack.supervisor.health_checks import HOST
from devstack.toolchain.gobuild import tied_to_us
from services.common.kubernetes import CONFIG_MAP, SECRET, ApiResource, Manifest
from tests.component.k8s.manifests import containers, variables
from tests.component.rights import SERVICE_ACCOUNT, kubeconfig_with

DEPLOYMENT = ApiResource("apps", "v1", "Deployment", "deployments")
JOB = ApiResource("batch", "v1", "Job", "jobs")
INHERITED = ("PATH", "HOME", "LANG")
"""What the image has of its own."""
READY_SECONDS = 180
STOP_SECONDS = 20


@dataclass(frozen=True)
class Container:
    """A command and its environment."""

    argv: tuple[str, ...]
    environment: Mapping[str, str]


@dataclass(frozen=True)
class Namespace:
    """Workloads of one namespace, as the API server has them."""

    name: str
    api: httpx2.Client
    kubeconfig: Path
    """Of the cluster's administrator."""
    folder: Path
    """For the files of the containers."""

    def deployed(self, name: str, metrics_port: int = 0) -> Container:
        """The container of a Deployment."""
        found = self._container(name, self._read(DEPLOYMENT, name)["spec"]["template"])
        served = {"METRICS_HOST": HOST, "METRICS_PORT": str(metrics_port)} if metrics_port else {}
        return Container(found.argv, found.environment | served)

    def run_job(self, name: str) -> None:
        """The container of a Job, to its end."""
        job = self._container(name, self._read(JOB, name)["spec"]["template"])
        subprocess.run(job.argv, env=job.environment, check=True, capture_output=True)

    def _container(self, name: str, template: Manifest) -> Container:
        """What a kubelet makes of a pod template."""
        pod, root = template["spec"], self.folder / name
        (container,) = containers(template)
        mounts = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"] if mount.get("readOnly")}
        volumes = {volume["name"]: volume for volume in pod["volumes"]}
        for path, volume in mounts.items():
            self._write(root / path.lstrip("/"), volumes[volume])
        given = variables(container, self._config_map, lambda secret, key: self._secret(secret)[key].decode())
        mounted = re.compile("|".join(rf"(?:{re.escape(path)})(?=/)" for path in mounts))
        placed = {key: mounted.sub(lambda path: f"{root}{path[0]}", value) for key, value in given.items()}
        (root / "tmp").mkdir(parents=True, exist_ok=True)
        own = {key: os.environ[key] for key in INHERITED if key in os.environ} | {"TMPDIR": str(root / "tmp")}
        account = self._account(pod["serviceAccountName"], root) if pod["automountServiceAccountToken"] else {}
        return Container((sys.executable, "-m", *container["args"]), own | placed | account)

    def _write(self, folder: Path, volume: Manifest) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in self._files(volume).items():
            (folder / name).write_bytes(content)

    def _files(self, volume: Manifest) -> dict[str, bytes]:
        if "secret" in volume:
            return self._secret(volume["secret"]["secretName"])
        found: dict[str, bytes] = {}
        for source in (item["secret"] for item in volume["projected"]["sources"]):
            content = self._secret(source["name"], optional=source["optional"])
            found |= {item["path"]: content[item["key"]] for item in source["items"] if content}
        return found

    def _account(self, name: str, folder: Path) -> dict[str, str]:
        """In place of the token that is mounted into pods."""
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        answer = self.api.post(SERVICE_ACCOUNT.path(self.name, name, "token"), json=request)
        assert answer.is_success, answer.text
        token = answer.json()["status"]["token"]
        return {"KUBECONFIG": str(kubeconfig_with(token, self.kubeconfig, folder))}

    def _config_map(self, name: str) -> dict[str, str]:
        return dict(self._read(CONFIG_MAP, name)["data"])

    def _secret(self, name: str, *, optional: bool = False) -> dict[str, bytes]:
        data = self._read(SECRET, name, optional=optional).get("data", {})
        return {key: base64.b64decode(value) for key, value in data.items()}

    def _read(self, resource: ApiResource, name: str, *, optional: bool = False) -> Any:
        answer = self.api.get(resource.path(self.name, name))
        if optional and answer.status_code == httpx2.codes.NOT_FOUND:
            return {}
        assert answer.is_success, answer.text
        return answer.json()


@contextmanager
def running(container: Container, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The process of a container, until the block ends; it does not outlive this program."""
    with log.open("wb") as output:
        command = [*tied_to_us(), *container.argv]
        process = subprocess.Popen(command, env=container.environment, stdout=output, stderr=subprocess.STDOUT)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def await_ready(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    """Wait until the readiness probe succeeds; a process that ends instead fails with its last words."""
    deadline = time.monotonic() + READY_SECONDS
    while not _is_ready(port):
        assert process.poll() is None, tail_of(log)
        assert time.monotonic() < deadline, tail_of(log)
        time.sleep(0.1)


def _is_ready(port: int) -> bool:
    try:
        return httpx2.get(f"http://{HOST}:{port}/readyz").is_success
    except httpx2.TransportError:
        return False

"""The folder in which one stack keeps everything it has: data, logs, keys, its control socket."""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from devstack.paths import ROOT
from devstack.stack import identities, second_cluster
from services.common.errors import InvalidConfiguration

DEFAULT = ROOT / ".local"
READY = b"ready"
"""What a supervisor writes to the descriptor that its starter waits on."""

MARKER = ".gitops-stack"
"""A file that says the folder is ours: only such a folder is ever wiped."""

SECRETS = (
    *("postgres", "owner", "planner", "replication", "backup", "reader", "admin_token"),
    *("remote_admin_token", "git", "redis", "token-argocd-1", "token-argocd-2"),
    *("token-argocd-3", "token-argocd-4"),
    *("kafka-operator", "connect-stores"),
    *("token-kubelet", "token-kube-scheduler", "token-kube-proxy"),
    *identities.secret_names(),
    *second_cluster.secret_names(),
)


@dataclass(frozen=True)
class State:
    """Paths below one state folder, and the small files in it."""

    root: Path

    @property
    def logs(self) -> Path:
        """One file per process, ``NAME.log``."""
        return self.root / "logs"

    @property
    def control_socket(self) -> Path:
        """Where the supervisor takes requests."""
        return self.root / "control.sock"

    @property
    def supervisor_log(self) -> Path:
        """What a supervisor in the background prints."""
        return self.logs / "supervisor.log"

    @property
    def kubeconfig(self) -> Path:
        """Credentials of the cluster's administrator."""
        return self.root / "kubeconfig"

    def kubeconfig_of(self, account: str) -> Path:
        """Credentials of one service account."""
        return self.root / "kubernetes" / f"{account}.kubeconfig"

    @property
    def sealing_keys(self) -> tuple[Path, Path]:
        """Files of the private and of the public keys that Secrets are sealed with."""
        folder = self.folder("sealing")
        return folder / "private.json", folder / "public.json"

    def log(self, process: str) -> Path:
        """Output of one process."""
        return self.logs / f"{process}.log"

    def folder(self, name: str) -> Path:
        """A folder for the data of one component; made if absent, closed to others."""
        path = self.root / name
        path.mkdir(mode=0o700, exist_ok=True)
        return path

    @property
    def lock(self) -> Path:
        """Held by the supervisor."""
        return self.root / "lock"

    def prepare(self) -> None:
        """Make the folder. Raises InvalidConfiguration for one that holds anything but a stack."""
        if self.root.exists() and any(self.root.iterdir()) and not (self.root / MARKER).exists():
            raise InvalidConfiguration(f"{self.root} holds something else; name an empty folder with --state")
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        (self.root / MARKER).touch()
        self.folder("logs")

    def wipe(self) -> None:
        """Forget all earlier runs. For whoever is :meth:`sole_owner`."""
        # A supervisor in the background is writing its log already.
        kept = (self.root / MARKER, self.lock, self.logs, self.supervisor_log)
        for path in (*self.root.iterdir(), *self.logs.iterdir()):
            if path not in kept:
                shutil.rmtree(path) if path.is_dir() else path.unlink()

    @contextmanager
    def sole_owner(self) -> Iterator[None]:
        """Hold the folder for one supervisor. Raises InvalidConfiguration if another has it."""
        with self.lock.open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise InvalidConfiguration(
                    f"a stack is running in {self.root}; end it with 'gitopsctl dev down'"
                ) from None
            yield

    def begin_logs(self) -> None:
        """Start new logs, so that the end of a log is this run's; those of the last run are kept as ``NAME.log.1``."""
        for log in self.logs.glob("*.log"):
            if log != self.supervisor_log:
                log.replace(log.with_suffix(".log.1"))

    def secrets(self) -> dict[str, str]:
        """Passwords and tokens of this stack, each made once."""
        known: dict[str, str] = self.recall("secrets") or {}
        if missing := [name for name in SECRETS if name not in known]:
            known |= {name: secrets.token_urlsafe(24) for name in missing}
            self.remember("secrets", known)
        return known

    def remember(self, name: str, value: Any) -> None:
        """Keep ``value`` for the commands that look at the stack from outside."""
        write_private(self.root / f"{name}.json", json.dumps(value, indent=1))

    def recall(self, name: str) -> Any:
        """What :meth:`remember` kept, or None."""
        try:
            return json.loads((self.root / f"{name}.json").read_text())
        except (FileNotFoundError, ValueError):
            return None


def write_private(path: Path, text: str | bytes) -> None:
    """Write a file that only its owner may read, never half written."""
    content = text.encode() if isinstance(text, str) else text
    draft = path.with_name(f".{path.name}.new")
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    draft.replace(path)

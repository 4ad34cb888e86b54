"""Files from Maven Central, exactly those of ``toolchain/maven.lock``.

jgo knows where Maven Central is and fetches one file at a time; which files, and what they must contain, is the
lock's to say. Nothing is resolved at install time.
"""

from __future__ import annotations

import hashlib
import shutil
import tarfile
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import TYPE_CHECKING, Any

from services.common.errors import Unavailable

if TYPE_CHECKING:
    from jgo.maven import MavenContext

ATTEMPTS = 3
CONNECTIONS = 8
TIMEOUT_SECONDS = 60

# Python 3.11 has filters since 3.11.4; without one the checksum still vouches for the archive.
EXTRACTION: Any = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}

Advance = Callable[[int], None]
"""Told the bytes of each file that has arrived."""


@dataclass(frozen=True, order=True)
class Artifact:
    """One file of Maven Central."""

    component: str
    group: str
    name: str
    version: str
    packaging: str
    classifier: str
    size: int
    sha256: str

    @property
    def coordinates(self) -> str:
        """``group:name:version:packaging[:classifier]``."""
        return ":".join(part for part in (self.group, self.name, self.version, self.packaging, self.classifier) if part)

    def line(self) -> str:
        """The artifact as a line of the lock."""
        return f"{self.component} {self.coordinates} {self.size} {self.sha256}"


def read_lock(path: Path) -> dict[str, list[Artifact]]:
    """The artifacts of the lock at ``path`` by component."""
    components: dict[str, list[Artifact]] = defaultdict(list)
    for line in path.read_text().splitlines():
        if line and not line.startswith("#"):
            artifact = parse_line(line)
            components[artifact.component].append(artifact)
    return dict(components)


def parse_line(line: str) -> Artifact:
    """One line of the lock."""
    component, coordinates, size, sha256 = line.split()
    group, name, version, packaging, *classifier = coordinates.split(":")
    return Artifact(component, group, name, version, packaging, "".join(classifier), int(size), sha256)


def key_of(artifacts: Iterable[Artifact]) -> str:
    """A name for exactly these files."""
    lines = "\n".join(artifact.line() for artifact in sorted(artifacts))
    return hashlib.sha256(lines.encode()).hexdigest()[:16]


def fetch_all(artifacts: Iterable[Artifact], folder: Path, advance: Advance) -> None:
    """Put every artifact into ``folder``, archives unpacked. Raises Unavailable naming the file that cannot be had."""
    with ThreadPool(CONNECTIONS) as pool:
        pool.map(lambda artifact: _fetch_and_place(artifact, folder, advance), artifacts, chunksize=1)


def _fetch_and_place(artifact: Artifact, folder: Path, advance: Advance) -> None:
    with tempfile.TemporaryDirectory(prefix=".download-", dir=folder) as scratch:
        file = _fetch_verified(artifact, Path(scratch))
        if artifact.packaging == "tar.gz":
            with tarfile.open(file) as archive:
                archive.extractall(folder, **EXTRACTION)  # noqa: S202 - the archive is the one we locked
        else:
            shutil.move(file, folder / file.name)
    advance(artifact.size)


def _fetch_verified(artifact: Artifact, scratch: Path) -> Path:
    problem = ""
    for attempt in range(ATTEMPTS):
        try:
            file = download(artifact, scratch / str(attempt))
        except (RuntimeError, OSError) as error:
            problem = str(error)
            continue
        if sha256_of(file) == artifact.sha256:
            return file
        problem = f"{file.stat().st_size} bytes arrived whose SHA-256 is not the one in toolchain/maven.lock"
    raise Unavailable(f"cannot fetch {artifact.coordinates} from Maven Central: {problem}")


def download(artifact: Artifact, scratch: Path) -> Path:
    """Fetch ``artifact`` into ``scratch``, which no other download may use: jgo writes in place."""
    component = maven_context(scratch).project(artifact.group, artifact.name).at_version(artifact.version)
    return Path(component.artifact(artifact.classifier, artifact.packaging).resolve())


def maven_context(cache: Path) -> MavenContext:
    """jgo, keeping its files in ``cache`` and not in the user's Maven repository."""
    # Imported here: the image with Argo CD, which fetches nothing, lacks it.
    from jgo.maven import MavenContext  # noqa: PLC0415

    return MavenContext(repo_cache=cache, timeout=TIMEOUT_SECONDS)


def sha256_of(path: Path) -> str:
    """SHA-256 of a file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()

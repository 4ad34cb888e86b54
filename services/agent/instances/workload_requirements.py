"""What an Argo CD's workloads lack of what tenancy needs, and which version they are. Pure.

A process reads its parameters when it starts, so a ConfigMap is in force only for processes that started since.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from services.common.argocd_names import CONTROLLER, REPO_SERVER
from services.common.argocd_versions import Version, parsed_version
from services.common.json_values import dict_of, dicts_of, text_of
from services.common.kubernetes import Manifest

PARAMETERS, GENERATORS = "argocd-cmd-params-cm", "argocd-generators"
VERSION_LABEL = "app.kubernetes.io/version"
TIMEOUT = "ARGOCD_EXEC_TIMEOUT"
BOUNDS_OF_CALLS = ("ARGOCD_K8S_TCP_TIMEOUT", "ARGOCD_K8S_SERVER_SIDE_TIMEOUT")
"""Timeouts of calls to clusters; the second since 3.3. A list that is cut off counts as empty (tried with 3.2.11)."""
LIMITS = ("memory", "ephemeral-storage")
PROGRAMS = ("kustomize", "helm")
WRAPPING = ("env -i ", "ulimit -t ", "ulimit -v ", "HTTPS_PROXY=", "--skip-schema-validation")
"""What the script contains that calls a generator in place of the repo server."""


@dataclass(frozen=True, slots=True)
class Workloads:
    """The workloads of one engine namespace, and their settings; None: there is no such object."""

    repo_server: Manifest | None = None
    controller: Manifest | None = None
    parameters: Mapping[str, str] | None = None
    """Data of argocd-cmd-params-cm."""
    generators: Mapping[str, str] | None = None
    """Data of argocd-generators."""

    @property
    def any_seen(self) -> bool:
        """Whether any workload exists."""
        return self.repo_server is not None or self.controller is not None

    @property
    def controller_account(self) -> str:
        """The service account of its application controller; the usual name if the controller is not seen."""
        return text_of(_pod(self.controller).get("serviceAccountName")) or CONTROLLER

    def named(self) -> dict[str, Manifest | None]:
        """The workloads by name."""
        return {REPO_SERVER: self.repo_server, CONTROLLER: self.controller}


@dataclass(frozen=True, slots=True)
class Parameter:
    """A setting of argocd-cmd-params-cm, or the container's variable in its place."""

    name: str
    workload: str
    variable: str
    is_met: Callable[[str], bool]
    otherwise: str


def _is_false(value: str) -> bool:
    return value == "false"


def _is_true(value: str) -> bool:
    return value == "true"


def _is_bound(value: str) -> bool:
    return value.strip(" 0") not in {"", "-1"}


def _parameter(name: str, workload: str, variable: str, is_met: Callable[[str], bool], otherwise: str) -> Parameter:
    prefix = "ARGOCD_APPLICATION_CONTROLLER_" if workload == CONTROLLER else "ARGOCD_"
    return Parameter(name, workload, prefix + variable, is_met, otherwise)


_ALL_OF_IT = "not bounded: one tenant's commits take all of the repo server"
_ALL_OF_ITS_TIME = "not set: how much the controller does at a time is not what was decided"
PARAMETERS_NEEDED = (
    _parameter(
        "reposerver.enable.git.submodule", REPO_SERVER, "GIT_MODULES_ENABLED", _is_false,
        "not 'false': a submodule is fetched from anywhere",
    ),
    _parameter(
        "reposerver.parallelism.limit", REPO_SERVER, "REPO_SERVER_PARALLELISM_LIMIT", _is_bound, _ALL_OF_IT
    ),
    _parameter(
        "reposerver.max.combined.directory.manifests.size", REPO_SERVER,
        "REPO_SERVER_MAX_COMBINED_DIRECTORY_MANIFESTS_SIZE", _is_bound, _ALL_OF_IT,
    ),
    _parameter(
        "reposerver.helm.manifest.max.extracted.size", REPO_SERVER,
        "REPO_SERVER_HELM_MANIFEST_MAX_EXTRACTED_SIZE", _is_bound, _ALL_OF_IT,
    ),
    _parameter("controller.status.processors", CONTROLLER, "STATUS_PROCESSORS", _is_bound, _ALL_OF_ITS_TIME),
    _parameter("controller.operation.processors", CONTROLLER, "OPERATION_PROCESSORS", _is_bound, _ALL_OF_ITS_TIME),
    _parameter(
        "controller.kubectl.parallelism.limit", CONTROLLER, "KUBECTL_PARALLELISM_LIMIT", _is_bound, _ALL_OF_ITS_TIME
    ),
    _parameter(
        "controller.repo.server.timeout.seconds", CONTROLLER, "REPO_SERVER_TIMEOUT_SECONDS", _is_bound, _ALL_OF_ITS_TIME
    ),
    _parameter(
        "controller.resource.health.persist", CONTROLLER, "PERSIST_RESOURCE_HEALTH", _is_true,
        "not 'true': status.resources[].health stays empty",
    ),
)  # fmt: skip


def missing_workloads(workloads: Workloads) -> Iterator[str]:
    """A sentence for each workload that does not exist."""
    if missing := [name for name, workload in workloads.named().items() if workload is None]:
        yield f"there is no {' nor '.join(missing)}: neither its version nor how it runs can be seen"


def unwrapped_generators(workloads: Workloads) -> Iterator[str]:
    """A sentence for each generator called without the script that hides the repo server's environment from tenants."""
    if workloads.repo_server is None:
        return
    container = _container(workloads.repo_server, REPO_SERVER)
    if unwrapped := [program for program in PROGRAMS if not _is_wrapped(program, workloads, container)]:
        yield f"{' and '.join(unwrapped)} of {REPO_SERVER} not called by the script of {GENERATORS}: what a tenant \
commits reads its environment, and fetches from anywhere"


def unmet_of_workloads(workloads: Workloads) -> Iterator[str]:
    """A sentence for each other requirement that is not met."""
    yield from _of_version(workloads)
    yield from _of_parameters(workloads)
    yield from _of_timeout(workloads)
    yield from _of_limits(workloads)


def version_of(workloads: Workloads) -> Version | None:
    """The version by the workloads' labels or image tags; the older one during an upgrade."""
    versions = [_version_in(each, name) for name, each in workloads.named().items() if each is not None]
    known = [version for version in versions if version is not None]
    return min(known) if known and len(known) == len(versions) else None


def _version_in(workload: Manifest, name: str) -> Version | None:
    """The version of the image, or else of the label, which may be wrong. An image with only a digest has none."""
    image = text_of(_container(workload, name).get("image")).partition("@")[0]
    tag = image.rpartition("/")[2].partition(":")[2]
    return parsed_version(tag) or parsed_version(_labels(workload).get(VERSION_LABEL, ""))


def _labels(workload: Manifest) -> dict[str, str]:
    return {name: text_of(value) for name, value in dict_of(dict_of(workload.get("metadata")).get("labels")).items()}


def _of_version(workloads: Workloads) -> Iterator[str]:
    if None not in workloads.named().values() and version_of(workloads) is None:
        yield f"its version is not to be seen: neither an image's tag nor the label {VERSION_LABEL} has it"


def _of_parameters(workloads: Workloads) -> Iterator[str]:
    for parameter in PARAMETERS_NEEDED:
        given = _variables(workloads.named()[parameter.workload], parameter.workload).get(parameter.variable)
        value = (workloads.parameters or {}).get(parameter.name, "") if given is None else given
        if not parameter.is_met(value):
            yield f"{parameter.name} of {PARAMETERS} is {parameter.otherwise}"


def _of_timeout(workloads: Workloads) -> Iterator[str]:
    given = _variables(workloads.repo_server, REPO_SERVER)
    if workloads.repo_server is not None and not _is_bound(given.get(TIMEOUT, "")):
        yield f"{TIMEOUT} of {REPO_SERVER} is not set: one repository occupies it"


def hazards_of_workloads(workloads: Workloads) -> Iterator[str]:
    """A sentence for each setting that should not exist. None of them keeps the instance from being used."""
    given = _variables(workloads.controller, CONTROLLER)
    if bounds := [each for each in BOUNDS_OF_CALLS if given.get(each, "").strip(" 0smh")]:
        yield f"{' and '.join(bounds)} of {CONTROLLER} is set: of a cluster that answers more slowly nothing counts as \
deployed, and all of it is deployed anew"


def _of_limits(workloads: Workloads) -> Iterator[str]:
    for name, workload in workloads.named().items():
        limits = dict_of(dict_of(_container(workload, name).get("resources")).get("limits"))
        if workload is not None and (lacking := [each for each in LIMITS if not limits.get(each)]):
            yield f"{name} has no limit of {' and '.join(lacking)}: one repository takes all of its node"


def _is_wrapped(program: str, workloads: Workloads, container: Manifest) -> bool:
    """Whether the first folder of its path has the script under the program's name."""
    variables = _variables(workloads.repo_server, REPO_SERVER)
    first = variables.get("PATH", "").partition(":")[0]
    mounted = {
        text_of(mount.get("name"))
        for mount in dicts_of(container.get("volumeMounts"))
        if mount.get("mountPath") == first
    }
    volumes = dicts_of(_pod(workloads.repo_server).get("volumes"))
    sources = [dict_of(volume.get("configMap")) for volume in volumes if text_of(volume.get("name")) in mounted]
    items = [item for source in sources if source.get("name") == GENERATORS for item in dicts_of(source.get("items"))]
    scripts = [
        (workloads.generators or {}).get(text_of(item.get("key")), "") for item in items if item.get("path") == program
    ]
    return bool(first and scripts and variables.get("GENERATORS_FOLDER")) and all(
        part in script for script in scripts for part in WRAPPING
    )


def _pod(workload: Manifest | None) -> Manifest:
    return dict_of(dict_of(dict_of((workload or {}).get("spec")).get("template")).get("spec"))


def _container(workload: Manifest | None, name: str) -> Manifest:
    return next((each for each in dicts_of(_pod(workload).get("containers")) if each.get("name") == name), {})


def _variables(workload: Manifest | None, name: str) -> dict[str, str]:
    """Variables with a value of their own."""
    given = dicts_of(_container(workload, name).get("env"))
    return {text_of(each.get("name")): text_of(each["value"]) for each in given if "value" in each}

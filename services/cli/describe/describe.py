"""``gitopsctl describe``: asks an API server for what users have, with the rights of whoever asks."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer

from services.cli.describe.application_tree import application_tree
from services.cli.describe.application_view import Listed, application_view, is_of_application, is_open_run
from services.cli.output import OUTPUT, Output, print_rendered, tell
from services.common.errors import InvalidConfiguration, NoPermission
from services.common.kubernetes import (
    NAMESPACE,
    ApiResource,
    KubeClient,
    Manifest,
    NotFound,
    Rejected,
    Unauthenticated,
    connect,
)
from services.common.kubernetes.client import current_namespace
from services.common.startup import await_dependency
from services.kinds.application.kind import APPLICATION
from services.kinds.deployment_target_claim.model import DEPLOYMENT_TARGET_CLAIM
from services.kinds.environment.model import ENVIRONMENT
from services.kinds.promotion_run.model import PROMOTION_RUN
from services.kinds.shared.text import MAX_NAME
from services.kinds.snapshot_environment_binding.model import BINDING

app = typer.Typer(help="The state of what users have, in one tree.", no_args_is_help=True)

NAME = typer.Argument(..., help="Of the Application.")
IN_NAMESPACE = typer.Option(
    None, "-n", "--namespace", help="Of the Application; that of the kubeconfig's current context if left out."
)
KUBECONFIG = typer.Option(..., envvar="KUBECONFIG", help="Kubeconfig of who asks.")
TIMEOUT = typer.Option(10.0, help="Seconds to wait for the API server.")

MOST_KEPT = 1_000
"""Resources of a kind that are looked at: there may be any number."""
_OBJECT_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")

Wanted = Callable[[Mapping[str, Any]], bool]


# A group even while it has a single command: `gitopsctl describe application`.
@app.callback()
def describe() -> None:
    """The state of what users have, in one tree."""


@app.command()
def application(
    name: str = NAME,
    namespace: str | None = IN_NAMESPACE,
    kubeconfig: Path = KUBECONFIG,
    output: Output = OUTPUT,
    timeout: float = TIMEOUT,
) -> None:
    """Show an AppStudio Application: its environments in the order of promotion, what is deployed, open promotions.

    It takes the rights to get Applications, and to list Environments, SnapshotEnvironmentBindings, PromotionRuns and
    DeploymentTargetClaims in the namespace.
    """
    where = namespace if namespace is not None else current_namespace(kubeconfig)
    for what, text in (("NAME", name), ("--namespace", where)):
        if len(text) > MAX_NAME or not _OBJECT_NAME.fullmatch(text):
            raise InvalidConfiguration(
                f"{what}: '{text}' is not the name of an object: lower-case, digits, '-' and '.'"
            )
    listed = await_dependency("API server", lambda: asyncio.run(read_listed(kubeconfig, where, name)), timeout)
    view = application_view(name, where, listed)
    print_rendered(view.model_dump(by_alias=True), lambda: application_tree(view), output)


async def read_listed(kubeconfig: Path, namespace: str, name: str) -> Listed:
    """What there is of an application. Raises InvalidConfiguration if it does not exist, NoPermission, Retry."""
    async with await connect(kubeconfig) as kube:
        await _require_application(kube, namespace, name)
        return Listed(
            environments=await _read_wanted(kube, ENVIRONMENT, namespace, lambda _: True),
            bindings=await _read_wanted(kube, BINDING, namespace, lambda each: is_of_application(name, each)),
            runs=await _read_wanted(kube, PROMOTION_RUN, namespace, lambda each: is_open_run(name, each)),
            claims=await _read_wanted(kube, DEPLOYMENT_TARGET_CLAIM, namespace, lambda _: True),
        )


async def _require_application(kube: KubeClient, namespace: str, name: str) -> None:
    remedy = "the build service, which has this kind, is not installed there; is KUBECONFIG that of the right cluster?"
    try:
        with _answers(APPLICATION, "get", namespace, remedy):
            await kube.get_object(APPLICATION, namespace, name)
    except NotFound as error:
        await _require_namespace(kube, namespace)
        raise InvalidConfiguration(
            f"there is no Application '{name}' in namespace '{namespace}'; "
            f"'kubectl get {APPLICATION.plural}.{APPLICATION.group} -n {namespace}' shows those that there are"
        ) from error


async def _require_namespace(kube: KubeClient, namespace: str) -> None:
    """Raises InvalidConfiguration if the namespace does not exist, and the reader may read namespaces."""
    try:
        await kube.get_object(NAMESPACE, None, namespace)
    except NotFound as error:
        raise InvalidConfiguration(
            f"there is no namespace '{namespace}'; --namespace names another one, 'kubectl get namespaces' shows them"
        ) from error
    except Rejected:
        return


async def _read_wanted(kube: KubeClient, resource: ApiResource, namespace: str, is_wanted: Wanted) -> list[Manifest]:
    """The objects that ``is_wanted`` accepts, up to a limit; only one page is in memory at a time."""
    wanted: list[Manifest] = []
    with _answers(resource, "list", namespace, "its operators install it by 'gitopsctl crds apply'"):
        async for page in kube.list_pages(resource, namespace):
            wanted += filter(is_wanted, page.items)
            if len(wanted) > MOST_KEPT:
                tell(f"describe: there are more than {MOST_KEPT} {resource.plural}; the others are left out")
                return wanted[:MOST_KEPT]
    return wanted


@contextmanager
def _answers(resource: ApiResource, verb: str, namespace: str, remedy: str) -> Iterator[None]:
    """Turn answers that are no objects into errors for people. Raises NotFound only if an object is missing.

    Args:
        resource: what is asked for.
        verb: how.
        namespace: where.
        remedy: what to do if the API server does not know the kind.
    """
    kind = f"{resource.plural}.{resource.group}"
    try:
        yield
    except Unauthenticated as error:
        raise NoPermission("the API server does not accept the credentials in KUBECONFIG; log in again") from error
    except NotFound as error:
        if error.details.name:
            raise
        raise InvalidConfiguration(f"the API server does not serve {kind}: {remedy}") from error
    except Rejected as error:
        if not error.is_forbidden:
            raise InvalidConfiguration(f"the API server refuses to {verb} {kind}: {error}") from error
        raise NoPermission(
            f"you may not {verb} {kind} in namespace '{namespace}'; ask who administers it for a Role that allows it"
        ) from error

"""``gitopsctl describe application``: what it asks an API server for, and what it says when it gets no answer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml
from aiohttp import web
from typer.testing import CliRunner

from services.cli.describe import describe
from services.cli.describe.application_view import Listed
from services.cli.describe.describe import MOST_KEPT, read_listed
from services.common.errors import InvalidConfiguration, NoPermission, Retry
from services.common.kubernetes.client import current_namespace
from tests.unit.cli.describe.resources import SHOP, environment, resource, run
from tests.unit.common.kubernetes.fake_api_server import not_found, status

GROUP = "/apis/appstudio.redhat.com/v1alpha1/namespaces/team-a"
KINDS = ("environments", "snapshotenvironmentbindings", "promotionruns", "deploymenttargetclaims")


def kubeconfig_of(server: str, namespace: str = "") -> str:
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": {"server": server}}],
            "users": [{"name": "u", "user": {"token": "t"}}],
            "contexts": [
                {
                    "name": "x",
                    "context": {"cluster": "c", "user": "u"} | ({"namespace": namespace} if namespace else {}),
                }
            ],
            "current-context": "x",
        }
    )


@dataclass
class Namespace:
    """An API server with the resources of one namespace; ``refusals`` take the place of answers, by path."""

    kubeconfig: Path
    lists: dict[str, list[Any]] = field(default_factory=lambda: {kind: [] for kind in KINDS})
    refusals: dict[str, Callable[[], web.Response]] = field(default_factory=dict)

    async def handle(self, request: web.Request) -> web.Response:
        if request.path in self.refusals:
            return self.refusals[request.path]()
        if request.path == f"{GROUP}/applications/shop":
            return web.json_response(resource("shop", {}))
        if request.path == "/api/v1/namespaces/team-a":
            return web.json_response(resource("team-a", {}))
        _, _, last = request.path.rpartition("/")
        if last in self.lists:
            return web.json_response({"metadata": {"resourceVersion": "1"}, "items": self.lists[last]})
        return not_found(*request.path.split("/")[-2:])


@pytest.fixture
async def namespace(tmp_path: Path) -> AsyncIterator[Namespace]:
    served = Namespace(tmp_path / "kubeconfig")
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", served.handle)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    served.kubeconfig.write_text(kubeconfig_of(f"http://{host}:{port}"))
    yield served
    await runner.cleanup()


async def test_application_when_it_exists_then_what_is_of_it_is_read_and_runs_that_are_over_are_not(
    namespace: Namespace,
) -> None:
    others = run("other", "s", "staging")
    others["spec"]["application"] = "other"
    namespace.lists |= {"environments": [*SHOP.environments], "promotionruns": [*SHOP.runs, others]}
    listed = await read_listed(namespace.kubeconfig, "team-a", "shop")
    assert listed.environments == SHOP.environments
    assert [each["metadata"]["name"] for each in listed.runs] == ["shop-2-to-production", "shop-3"]


async def test_application_when_there_are_more_resources_than_are_looked_at_then_that_is_said(
    namespace: Namespace, capsys: pytest.CaptureFixture[str]
) -> None:
    namespace.lists["environments"] = [environment(f"e{n}") for n in range(MOST_KEPT + 1)]
    listed = await read_listed(namespace.kubeconfig, "team-a", "shop")
    assert len(listed.environments) == MOST_KEPT
    assert f"there are more than {MOST_KEPT} environments" in capsys.readouterr().err


async def test_application_when_it_does_not_exist_then_the_reader_learns_how_to_see_those_that_do(
    namespace: Namespace,
) -> None:
    with pytest.raises(InvalidConfiguration, match=r"no Application 'web' in namespace 'team-a'; 'kubectl get appl"):
        await read_listed(namespace.kubeconfig, "team-a", "web")


async def test_application_when_its_namespace_does_not_exist_then_that_is_said(namespace: Namespace) -> None:
    with pytest.raises(InvalidConfiguration, match="there is no namespace 'team-b'; --namespace names another one"):
        await read_listed(namespace.kubeconfig, "team-b", "shop")


async def test_application_when_namespaces_may_not_be_read_then_it_is_told_as_missing(namespace: Namespace) -> None:
    namespace.refusals["/api/v1/namespaces/team-b"] = lambda: status(403, "Forbidden")
    with pytest.raises(InvalidConfiguration, match="no Application 'shop' in namespace 'team-b'"):
        await read_listed(namespace.kubeconfig, "team-b", "shop")


def unserved() -> web.Response:
    """As an API server answers about a group that it does not know."""
    return web.Response(status=404, text="404 page not found\n")


@pytest.mark.parametrize("kind", KINDS)
async def test_kind_when_it_is_not_served_then_the_command_that_installs_it_is_named(
    namespace: Namespace, kind: str
) -> None:
    namespace.refusals[f"{GROUP}/{kind}"] = unserved
    with pytest.raises(InvalidConfiguration, match=rf"does not serve {kind}\.appstudio\.redhat\.com: .*crds apply"):
        await read_listed(namespace.kubeconfig, "team-a", "shop")


async def test_applications_when_they_are_not_served_then_the_build_service_is_named(namespace: Namespace) -> None:
    namespace.refusals[f"{GROUP}/applications/shop"] = unserved
    with pytest.raises(InvalidConfiguration, match=r"does not serve applications\.appstudio\.redhat\.com: the build"):
        await read_listed(namespace.kubeconfig, "team-a", "shop")


@pytest.mark.parametrize(("path", "verb"), [("applications/shop", "get"), ("promotionruns", "list")])
async def test_right_when_it_is_missing_then_it_is_named(namespace: Namespace, path: str, verb: str) -> None:
    namespace.refusals[f"{GROUP}/{path}"] = lambda: status(403, "Forbidden")
    with pytest.raises(NoPermission, match=f"you may not {verb} {path.partition('/')[0]}"):
        await read_listed(namespace.kubeconfig, "team-a", "shop")


async def test_credentials_when_they_are_not_accepted_then_nothing_is_tried_again(namespace: Namespace) -> None:
    namespace.refusals[f"{GROUP}/applications/shop"] = lambda: status(401, "Unauthorized")
    with pytest.raises(NoPermission, match="log in again"):
        await read_listed(namespace.kubeconfig, "team-a", "shop")


async def test_api_server_when_it_fails_then_it_may_be_asked_again(namespace: Namespace) -> None:
    namespace.refusals[f"{GROUP}/environments"] = lambda: status(503)
    with pytest.raises(Retry):
        await read_listed(namespace.kubeconfig, "team-a", "shop")


@pytest.mark.parametrize(("named", "wanted"), [("team-a", "team-a"), ("", "default")])
def test_namespace_when_it_is_left_out_then_it_is_that_of_the_current_context(
    tmp_path: Path, named: str, wanted: str
) -> None:
    (tmp_path / "kubeconfig").write_text(kubeconfig_of("https://x", named))
    assert current_namespace(tmp_path / "kubeconfig") == wanted


def test_namespace_when_there_is_no_kubeconfig_then_its_path_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfiguration, match=r"KUBECONFIG: cannot use .*gone"):
        current_namespace(tmp_path / "gone")


def asked(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> Any:
    async def listed(*_: object) -> Listed:
        return SHOP

    monkeypatch.setattr(describe, "read_listed", listed)
    return CliRunner().invoke(
        describe.app, ["application", *arguments, "--namespace", "team-a"], env={"KUBECONFIG": "none"}
    )


def test_command_when_a_person_asks_then_it_shows_a_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    assert asked(monkeypatch, "shop").stdout.startswith("Application shop in namespace team-a\n├── development")


@pytest.mark.parametrize(("output", "read"), [("json", orjson.loads), ("yaml", yaml.safe_load)])
def test_command_when_a_program_asks_then_every_value_is_there(
    monkeypatch: pytest.MonkeyPatch, output: str, read: Callable[[str], Any]
) -> None:
    shown = read(asked(monkeypatch, "shop", "-o", output).stdout)
    assert [each["name"] for each in shown["environments"]] == ["development", "load-test", "staging", "production"]
    cart, _ = shown["environments"][-1]["bindings"][0]["components"]
    assert len(cart["wantedCommit"]) == 40
    assert [each["behind"] for each in shown["promotions"]] == ["", "shop-2-to-production"]


@pytest.mark.parametrize("name", ["..", "", "a/b", "Shop", "x" * 254])
def test_command_when_a_name_cannot_be_one_then_nobody_is_asked(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    result = asked(monkeypatch, name)
    assert isinstance(result.exception, InvalidConfiguration)
    assert "NAME: " in str(result.exception)

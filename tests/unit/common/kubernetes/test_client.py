"""The client's answers are values or one of our error types, whatever comes over the wire."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import yaml
from aiohttp import web
from kubernetes.aio.client import Configuration

from devstack.stack.pki import Pki
from services.common.errors import GitOpsError, InvalidConfiguration, Permanent, Retry
from services.common.kubernetes import (
    NAMESPACE,
    AlreadyExists,
    ApiResource,
    Conflict,
    Expired,
    KubeClient,
    NamespaceTerminating,
    NotFound,
    Rejected,
    ServerFailed,
    Unauthenticated,
    connect,
)
from services.common.kubernetes.answers import MESSAGE_LIMIT
from services.common.kubernetes.client import client_of
from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT
from tests.unit.common.kubernetes import statuses
from tests.unit.common.kubernetes.fake_api_server import FakeApiServer, Fault, answers, says, serving


@pytest.fixture
async def server() -> FakeApiServer:
    return FakeApiServer()


@pytest.fixture
async def kube(server: FakeApiServer) -> AsyncIterator[KubeClient]:
    async with serving(server) as client:
        yield client


ANSWERS: dict[str, tuple[Fault, type[GitOpsError], str]] = {
    "400": (answers(400, "BadRequest"), Rejected, "400 BadRequest"),
    "401": (answers(401, "Unauthorized"), Unauthenticated, "401"),
    "403": (answers(403, "Forbidden", "user may not"), Rejected, "user may not"),
    "404": (answers(404, "NotFound"), NotFound, "404"),
    "409-exists": (answers(409, "AlreadyExists"), AlreadyExists, "409"),
    "409-conflict": (answers(409, "Conflict"), Conflict, "409"),
    "410": (answers(410, "Expired"), Expired, "410"),
    "422": (answers(422, "Invalid", "spec.path: Required"), Rejected, "spec.path: Required"),
    "429": (answers(429, "TooManyRequests"), Retry, "429"),
    "500": (answers(500, "InternalError"), ServerFailed, "500"),
    "503": (answers(503, "ServiceUnavailable"), Retry, "503"),
    "504": (answers(504, "Timeout"), ServerFailed, "504"),
    "html-error": (says(b"<html>bad gateway</html>", code=502), Retry, "bad gateway"),
    "json-error-that-is-no-status": (says(b'"overloaded"', code=503), Retry, "overloaded"),
    "html-success": (says(b"<html>welcome</html>"), Retry, "not JSON"),
    "truncated": (says(b'{"metadata":{"na'), Retry, "not JSON"),
}


@pytest.mark.parametrize(("answer", "type_", "text"), ANSWERS.values(), ids=ANSWERS)
async def test_answer_when_it_is_a_refusal_then_its_type_says_what_to_do(
    server: FakeApiServer, kube: KubeClient, answer: Fault, type_: type[GitOpsError], text: str
) -> None:
    server.get_faults.append(answer)
    with pytest.raises(GitOpsError, match=text) as refusal:
        await kube.get_object(GITOPS_DEPLOYMENT, "team-a", "web")
    assert type(refusal.value) is type_


REFUSALS: dict[str, tuple[bytes, int, type[GitOpsError]]] = {
    "object-gone": (statuses.CUSTOM_RESOURCE_GONE, 404, NotFound),
    "namespace-going": (statuses.NAMESPACE_TERMINATING, 403, NamespaceTerminating),
    "no-rights-in-treacherous-words": (statuses.FORBIDDEN, 403, Rejected),
    "details-of-another-shape": (b'{"details":{"causes":[null,{"reason":["NamespaceTerminating"]}]}}', 403, Rejected),
    "details-that-are-none": (b'{"details":"NamespaceTerminating"}', 403, Rejected),
}


@pytest.mark.parametrize(("body", "code", "type_"), REFUSALS.values(), ids=REFUSALS)
async def test_creation_when_it_is_refused_then_fields_of_the_status_decide_and_not_its_words(
    server: FakeApiServer, kube: KubeClient, body: bytes, code: int, type_: type[GitOpsError]
) -> None:
    server.get_faults.append(says(body, code))
    with pytest.raises(GitOpsError) as refusal:
        await kube.create_object(
            GITOPS_DEPLOYMENT, {"metadata": {"namespace": "team-a", "name": "web"}}, field_manager="test"
        )
    assert type(refusal.value) is type_


MISSING = {
    "it": (statuses.CUSTOM_RESOURCE_GONE, True),
    "one-of-another-kind": (statuses.SECRET_GONE.replace(b"kube", b"web"), False),
    "its-namespace": (statuses.NAMESPACE_GONE.replace(b"team-a", b"web"), False),
    "its-kind": (statuses.KIND_NOT_SERVED, False),
    "its-group-or-version": (statuses.NOT_FOUND_PAGE, False),
    "a-proxy": (b'<html>"web" not found</html>', False),
}


@pytest.mark.parametrize(("body", "expected"), MISSING.values(), ids=MISSING)
async def test_object_when_something_is_not_found_then_it_is_known_whether_that_is_the_object(
    server: FakeApiServer, kube: KubeClient, body: bytes, *, expected: bool
) -> None:
    server.get_faults.append(says(body, 404))
    with pytest.raises(NotFound) as missing:
        await kube.get_object(GITOPS_DEPLOYMENT, "team-a", "web")
    assert missing.value.is_of(GITOPS_DEPLOYMENT.plural, "web") is expected


async def test_answer_when_its_message_is_long_then_the_error_is_not(server: FakeApiServer, kube: KubeClient) -> None:
    server.get_faults.append(answers(422, "Invalid", "x" * 100_000))
    with pytest.raises(Rejected) as refusal:
        await kube.get_object(GITOPS_DEPLOYMENT, "team-a", "web")
    assert len(str(refusal.value)) < MESSAGE_LIMIT + 100


async def test_api_server_when_nobody_listens_then_it_is_worth_a_retry(server: FakeApiServer) -> None:
    async with serving(server) as kube:
        host = kube.configuration.host
    async with serving(FakeApiServer()) as other:
        other.configuration.host = host
        with pytest.raises(Retry, match="GET /api"):
            await other.get_object(NAMESPACE, None, "default")


@pytest.mark.parametrize("trusted", [True, False])
async def test_certificate_when_the_api_server_shows_it_then_it_is_read_whether_it_is_trusted_or_not(
    tmp_path: Path, *, trusted: bool
) -> None:
    pki = Pki(tmp_path)
    pki.ensure("127.0.0.1")
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(pki.server_certificate, pki.server_key)
    async with await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", ssl=tls) as server:
        configuration = Configuration(host=f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        configuration.ssl_ca_cert = str(pki.authority) if trusted else None
        async with client_of(configuration) as kube:
            shown = await kube.read_certificate()
    assert ssl.DER_cert_to_PEM_cert(shown) == pki.server_certificate.read_text()


@pytest.mark.parametrize(
    ("host", "proxy", "error"),
    [
        ("http://127.0.0.1:1", None, Permanent),
        ("https://127.0.0.1:1", "http://proxy", Permanent),
        ("https://127.0.0.1:1", None, Retry),
    ],
    ids=["no TLS", "a proxy", "nobody listens"],
)
async def test_certificate_when_it_is_not_to_be_seen_then_that_is_an_error_of_ours(
    host: str, proxy: str | None, error: type[GitOpsError]
) -> None:
    configuration = Configuration(host=host)
    configuration.proxy = proxy
    async with client_of(configuration) as kube:
        with pytest.raises(error, match=r"certificate|TLS"):
            await kube.read_certificate()


PATHS: dict[str, tuple[ApiResource, tuple[str | None, ...], str]] = {
    "core-cluster-scoped": (NAMESPACE, (None, "a"), "/api/v1/namespaces/a"),
    "collection": (GITOPS_DEPLOYMENT, (), "/apis/managed-gitops.redhat.com/v1alpha1/gitopsdeployments"),
    "subresource": (
        GITOPS_DEPLOYMENT,
        ("team-a", "web", "status"),
        "/apis/managed-gitops.redhat.com/v1alpha1/namespaces/team-a/gitopsdeployments/web/status",
    ),
    "hostile-name": (
        GITOPS_DEPLOYMENT,
        ("team-a", "../../x?y"),
        "/apis/managed-gitops.redhat.com/v1alpha1/namespaces/team-a/gitopsdeployments/..%2F..%2Fx%3Fy",
    ),
}


@pytest.mark.parametrize(("resource", "parts", "path"), PATHS.values(), ids=PATHS)
def test_path_when_built_then_every_part_stays_in_its_place(
    resource: ApiResource, parts: tuple[str | None, ...], path: str
) -> None:
    assert resource.path(*parts) == path


KUBECONFIGS = {"missing": None, "empty": "", "not-yaml": "{", "no-contexts": "apiVersion: v1\nkind: Config\n"}


@pytest.mark.parametrize("content", KUBECONFIGS.values(), ids=KUBECONFIGS)
async def test_kubeconfig_when_unusable_then_the_file_is_named(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "kubeconfig"
    if content is not None:
        path.write_text(content)
    with pytest.raises(InvalidConfiguration, match=str(path)):
        await connect(path)


async def test_request_when_the_kubeconfig_has_a_token_then_it_bears_that_and_a_renewed_one(
    server: FakeApiServer, kube: KubeClient, tmp_path: Path
) -> None:
    path, borne = tmp_path / "kubeconfig", []

    async def note(_: FakeApiServer, request: web.Request) -> web.Response:
        borne.append(request.headers["Authorization"])
        return web.json_response({"metadata": {}})

    server.get_faults.extend([note, note])
    config = {
        "clusters": [{"name": "here", "cluster": {"server": kube.configuration.host}}],
        "users": [{"name": "me", "user": {"token": "first"}}],
        "contexts": [{"name": "me", "context": {"cluster": "here", "user": "me"}}],
        "current-context": "me",
    }
    path.write_text(yaml.safe_dump(config))
    async with await connect(path) as client:
        await client.get_object(GITOPS_DEPLOYMENT, "team-a", "web")
        client.configuration.api_key["BearerToken"] = "Bearer second"
        await client.get_object(GITOPS_DEPLOYMENT, "team-a", "web")
    assert borne == ["Bearer first", "Bearer second"]


async def test_change_when_no_connection_is_to_be_had_while_its_object_is_ours_then_it_is_not_sent(
    server: FakeApiServer, kube: KubeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kube.calls.connector, "_limit", 1)
    server.get_seconds = 0.2
    reading, changing = await asyncio.gather(
        kube.get_object(GITOPS_DEPLOYMENT, "team-a", "read"),
        kube.fenced(lambda: 0.01).delete_object(GITOPS_DEPLOYMENT, "team-a", "changed"),
        return_exceptions=True,
    )
    assert (type(reading), type(changing)) == (NotFound, Retry)
    assert [path.rpartition("/")[2] for path in server.gets] == ["read"]


async def test_change_when_its_object_may_be_anothers_by_now_then_it_is_not_sent(
    server: FakeApiServer, kube: KubeClient
) -> None:
    def refuse() -> float:
        raise Retry("not a member")

    fenced = kube.fenced(refuse)
    manifest = {"metadata": {"name": "web", "namespace": "team-a"}}
    for change in (
        fenced.create_object(GITOPS_DEPLOYMENT, manifest, field_manager="test"),
        fenced.apply_object(GITOPS_DEPLOYMENT, manifest, field_manager="test"),
        fenced.patch_object(GITOPS_DEPLOYMENT, "team-a", "web", {}, field_manager="test"),
        fenced.delete_object(GITOPS_DEPLOYMENT, "team-a", "web"),
    ):
        with pytest.raises(Retry, match="not a member"):
            await change
    assert server.objects == {}

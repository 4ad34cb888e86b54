"""What a kubeconfig may say. It comes from a tenant: nothing of it is to be executed, opened, expanded or believed."""

from __future__ import annotations

import base64
import time
from typing import Any

import pytest

from services.agent.credentials.check_result import CheckFailed
from services.agent.credentials.clusters.client_certificate import ClientCertificate
from services.agent.credentials.clusters.kubeconfig import ClusterAccess, read_kubeconfig
from tests.unit.agent.credentials.given import TOKEN, kubeconfig

SERVER = "https://api.example.com:6443"
PLANTED = "PLANTED-SECRET"


def read_access(values: dict[str, bytes], api_url: str) -> ClusterAccess:
    return read_kubeconfig(values).access(api_url)


def cluster(**fields: Any) -> dict[str, Any]:
    return {"clusters": [{"name": "c", "cluster": {"server": SERVER} | fields}]}


def user(**fields: Any) -> dict[str, Any]:
    return {"users": [{"name": "u", "user": {"token": TOKEN} | fields}]}


def other_user(**fields: Any) -> dict[str, Any]:
    return {"users": [{"name": "u", "user": {"token": TOKEN}}, {"name": "other", "user": fields}]}


HOSTILE: dict[str, tuple[str | bytes, str]] = {
    "exec": (kubeconfig(SERVER, **user(exec={"command": "sh"})), "users['u'].user.exec is not allowed"),
    "exec-of-a-user-not-used": (
        kubeconfig(SERVER, **other_user(exec={"command": "sh"})),
        "users['other'].user.exec is not allowed",
    ),
    "exec-in-capitals": (kubeconfig(SERVER, **user(Exec={"command": "sh"})), "users['u'].user.* is unknown"),
    "auth-provider": (kubeconfig(SERVER, **user(**{"auth-provider": {"name": "gcp"}})), "auth-provider is not allowed"),
    "token-file": (kubeconfig(SERVER, **user(tokenFile="/etc/passwd")), "tokenFile is not allowed"),
    "authority-file": (
        kubeconfig(SERVER, **cluster(**{"certificate-authority": "/etc/passwd"})),
        "clusters['c'].cluster.certificate-authority is not allowed",
    ),
    "certificate-file": (
        kubeconfig(SERVER, **user(**{"client-certificate": "/a"})),
        "client-certificate is not allowed",
    ),
    "key-file": (kubeconfig(SERVER, **user(**{"client-key": "/a"})), "client-key is not allowed"),
    "proxy": (kubeconfig(SERVER, **cluster(**{"proxy-url": "http://10.0.0.1"})), "proxy-url is not allowed"),
    "tls-server-name": (
        kubeconfig(SERVER, **cluster(**{"tls-server-name": "kubernetes.default"})),
        "tls-server-name is not allowed",
    ),
    "impersonation": (kubeconfig(SERVER, **user(**{"as": "admin"})), "users['u'].user.as is not allowed"),
    "impersonation-of-groups": (kubeconfig(SERVER, **user(**{"as-groups": ["a"]})), "as-groups is not allowed"),
    "impersonation-extra": (kubeconfig(SERVER, **user(**{"as-user-extra": {}})), "as-user-extra is not allowed"),
    "impersonation-uid": (kubeconfig(SERVER, **user(**{"as-uid": "1"})), "as-uid is not allowed"),
    "unknown-field-that-holds-a-secret": (
        kubeconfig(SERVER, **user(**{PLANTED: "x"})),
        "a field users['u'].user.* is unknown",
    ),
    "unknown-top-level-field": (kubeconfig(SERVER, hosts=[]), "a field * is unknown"),
    "billion-laughs": (b"a: &a [x]\nb: &b [*a,*a,*a]\nc: [*b,*b,*b]\n", "anchors and aliases are not accepted"),
    "merge-key": (b"<<: {kind: Config}\n", "merge keys are not accepted"),
    "python-object": (b'!!python/object/apply:os.system ["true"]\n', "tags are not accepted"),
    "deep-nesting": (b"[" * 10_000, "nested deeper than"),
    "deep-mapping": (b"{a: " * 100 + b"}" * 100, "nested deeper than"),
    "too-many-values": (b"a: [" + b"1," * 30_000 + b"]", "more than 10000 values"),
    "too-large": (b"a: " + b"x" * 300_000, "larger than 256 KiB"),
    "two-documents": (b"kind: Config\n---\nkind: Config\n", "more than one document"),
    "not-utf-8": (b"\xff\xfe\x00", "not UTF-8 text"),
    "nul": (b"kind: Con\0fig", "yaml: control characters are not allowed"),
    "not-yaml": (f"kind: [{PLANTED}: {{".encode(), "yaml: line 2: did not find expected"),
    "not-yaml-further-down": (
        f"kind: Config\nusers: {PLANTED}: a".encode(),
        "yaml: line 2: mapping values are not allowed in this context",
    ),
    "empty": (b"", "it is empty"),
    "a-list": (b"[]", "couldn't get version/kind; json parse error: json: cannot unmarshal array into Go value"),
    "a-word": (
        b"badbad",
        "couldn't get version/kind; json parse error: json: cannot unmarshal string into Go value of type struct "
        '{ APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }',
    ),
    "same-key-twice": (b"kind: Config\nkind: Config\n", "a key is given twice"),
    "key-that-is-a-list": (b"? [a]\n: b\n", "a key is not text"),
    "other-kind": (kubeconfig(SERVER, kind="Secret"), "it is not of kind Config"),
    "clusters-with-the-same-name": (
        kubeconfig(
            SERVER, clusters=[{"name": "c", "cluster": {"server": SERVER}}, {"name": "c", "cluster": {"server": "b"}}]
        ),
        "clusters has two entries named 'c'",
    ),
    "users-with-the-same-name": (
        kubeconfig(SERVER, users=[{"name": "u", "user": {}}, {"name": "u", "user": {"token": "a"}}]),
        "users has two entries",
    ),
    "clusters-that-are-no-list": (kubeconfig(SERVER, clusters={"c": SERVER}), "clusters is not a list"),
    "cluster-without-name": (kubeconfig(SERVER, clusters=[{"cluster": {}}]), "an entry of clusters has no name"),
    "server-that-is-a-list": (kubeconfig(SERVER, clusters=[{"name": "c", "cluster": {"server": []}}]), "is not text"),
    "token-with-a-line-break": (kubeconfig(SERVER, token="a\nHost: b"), "the token is too long, or holds spaces"),
    "token-in-other-letters": (kubeconfig(SERVER, token="tökén"), "the token is too long, or holds spaces"),
    "token-too-long": (kubeconfig(SERVER, token="a" * 20_000), "the token is too long"),
    "token-that-is-a-mapping": (kubeconfig(SERVER, users=[{"name": "u", "user": {"token": {}}}]), "is not text"),
}


@pytest.mark.parametrize(("text", "why"), HOSTILE.values(), ids=HOSTILE)
def test_hostile_kubeconfig_when_read_then_refused_naming_what_and_showing_nothing(text: str | bytes, why: str) -> None:
    began = time.monotonic()
    with pytest.raises(CheckFailed) as refused:
        read_access({"kubeconfig": text.encode() if isinstance(text, str) else text}, SERVER)
    assert refused.value.reason == "UnableToParseKubeconfigData"
    assert refused.value.message.startswith("unable to parse kubeconfig data: ")
    assert why in refused.value.message
    assert PLANTED not in refused.value.message
    assert time.monotonic() - began < 2


def test_secret_without_kubeconfig_when_read_then_its_own_reason() -> None:
    with pytest.raises(CheckFailed) as refused:
        read_access({"config": b""}, SERVER)
    assert (refused.value.reason, refused.value.message) == (
        "MissingKubeConfigField",
        "missing kubeconfig field in Secret",
    )


SPELLINGS = {
    "same": SERVER,
    "slash-at-the-end": f"{SERVER}/",
    "capitals": "https://API.example.com:6443",
}


@pytest.mark.parametrize("server", SPELLINGS.values(), ids=SPELLINGS)
def test_cluster_when_its_server_is_the_api_url_in_other_spelling_then_found(server: str) -> None:
    assert read_access({"kubeconfig": kubeconfig(server).encode()}, SERVER).token == TOKEN


def test_cluster_when_none_has_the_api_url_then_said_so() -> None:
    with pytest.raises(CheckFailed) as refused:
        read_access({"kubeconfig": kubeconfig("https://other:6443").encode()}, SERVER)
    assert refused.value.reason == "UnableToLocateContext"
    assert "the kubeconfig did not have a cluster entry that matched the API URL" in refused.value.message


def test_context_when_none_uses_the_cluster_then_said_so() -> None:
    text = kubeconfig(SERVER, contexts=[{"name": "x", "context": {"cluster": "other", "user": "u"}}])
    with pytest.raises(CheckFailed) as refused:
        read_access({"kubeconfig": text.encode()}, SERVER)
    assert refused.value.reason == "UnableToLocateContext"
    assert refused.value.message.endswith("Context was expected to reference cluster 'c'")


def test_context_when_several_use_the_cluster_then_the_current_one() -> None:
    text = kubeconfig(
        SERVER,
        users=[{"name": "u", "user": {"token": "first"}}, {"name": "v", "user": {"token": "second"}}],
        contexts=[
            {"name": "x", "context": {"cluster": "c", "user": "u"}},
            {"name": "y", "context": {"cluster": "c", "user": "v"}},
        ],
        **{"current-context": "y"},
    )
    assert read_access({"kubeconfig": text.encode()}, SERVER).token == "second"


def test_user_when_missing_then_said_so() -> None:
    text = kubeconfig(SERVER, users=[])
    with pytest.raises(CheckFailed) as refused:
        read_access({"kubeconfig": text.encode()}, SERVER)
    assert refused.value.reason == "UnableToParseKubeconfigData"
    assert refused.value.message.endswith("missing auth info for x")


def test_user_when_without_token_then_the_known_text() -> None:
    text = kubeconfig(SERVER, users=[{"name": "u", "user": {"client-certificate-data": "eA=="}}])
    with pytest.raises(CheckFailed) as refused:
        read_access({"kubeconfig": text.encode()}, SERVER)
    assert refused.value.reason == "UnableToParseKubeconfigData"
    assert refused.value.message == (
        'kubeconfig must have a service account token for the user in context "x". '
        "client-certificate is not supported at this time."
    )


CERTIFICATE = {"client-certificate-data": "eA==", "client-key-data": "eQ=="}


def access_by_certificate(**user: str) -> ClusterAccess:
    text = kubeconfig(SERVER, users=[{"name": "u", "user": user}])
    return read_kubeconfig({"kubeconfig": text.encode()}).access(SERVER, by_certificate=True)


def test_user_when_with_a_certificate_and_no_token_then_it_serves_to_make_an_account() -> None:
    access = access_by_certificate(**CERTIFICATE)
    assert (access.token, access.certificate) == ("", ClientCertificate("eA==", "eQ=="))
    assert "eQ==" not in repr(access)


def test_user_when_with_a_token_and_a_certificate_then_the_token_is_used() -> None:
    access = access_by_certificate(**CERTIFICATE, token="one")
    assert (access.token, access.certificate) == ("one", None)


@pytest.mark.parametrize("missing", CERTIFICATE)
def test_certificate_when_it_is_half_there_then_said_so(missing: str) -> None:
    with pytest.raises(CheckFailed) as refused:
        access_by_certificate(**{name: value for name, value in CERTIFICATE.items() if name != missing})
    assert refused.value.message.endswith("client-certificate-data and client-key-data go together")


@pytest.mark.parametrize("data", ["%%%", base64.b64encode(b"\xff\xfe").decode()])
def test_authority_when_it_is_not_base64_of_text_then_no_rest_config(data: str) -> None:
    text = kubeconfig(SERVER, **cluster(**{"certificate-authority-data": data}))
    with pytest.raises(CheckFailed) as refused:
        read_access({"kubeconfig": text.encode()}, SERVER)
    assert refused.value.reason == "UnableToRetrieveRestConfig"


def test_access_when_represented_then_without_its_token() -> None:
    assert TOKEN not in repr(read_access({"kubeconfig": kubeconfig(SERVER).encode()}, SERVER))


def test_scalars_when_yaml_would_convert_them_then_text_as_written() -> None:
    text = kubeconfig(SERVER, users=[{"name": "u", "user": {"token": "@"}}]).replace("'@'", "0012e3")
    assert read_access({"kubeconfig": text.encode()}, SERVER).token == "0012e3"

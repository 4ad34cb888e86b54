"""Specs that are nothing but deep or large: the API server stores no part of them that the CRD does not know."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from services.common.kubernetes import ApiResource
from tests.component.api.cases import GOOD
from tests.component.plain_http import plain_client

DEEP = 5_000
DEEPER = 20_000
"""More than the API server reads at all."""


@pytest.fixture(scope="module")
def api(kubeconfig: Path) -> Iterator[httpx2.Client]:
    with plain_client(kubeconfig) as client:
        yield client


def create(api: httpx2.Client, resource: ApiResource, namespace: str, spec: str) -> httpx2.Response:
    meta = json.dumps({"name": "bomb", "namespace": namespace})
    body = f'{{"apiVersion":"{resource.api_version}","kind":"{resource.kind}","metadata":{meta},"spec":{spec}}}'
    return api.post(resource.path(namespace), content=body, headers={"Content-Type": "application/json"})


def nested(depth: int) -> str:
    return '{"a":' * depth + "1" + "}" * depth


def beside(spec: Any, more: str) -> str:
    """A good spec with one more field."""
    return json.dumps(spec)[:-1] + f',"more":{more}}}'


@pytest.mark.parametrize("resource", GOOD, ids=lambda resource: resource.kind)
def test_spec_when_it_is_deep_where_the_schema_knows_nothing_then_only_the_rest_is_stored(
    api: httpx2.Client, namespace: str, resource: ApiResource
) -> None:
    answer = create(api, resource, namespace, beside(GOOD[resource], nested(DEEP)))
    assert answer.status_code == 201
    assert "more" not in answer.json()["spec"]
    assert len(answer.content) < 5_000


@pytest.mark.parametrize("resource", GOOD, ids=lambda resource: resource.kind)
@pytest.mark.parametrize("depth", [DEEP, DEEPER])
def test_spec_when_it_is_deep_where_a_string_belongs_then_it_is_refused(
    api: httpx2.Client, namespace: str, resource: ApiResource, depth: int
) -> None:
    spec = json.dumps(dict.fromkeys(GOOD[resource], 0)).replace("0", nested(depth))
    assert create(api, resource, namespace, spec).status_code in {400, 422}
    assert api.get(f"{resource.path(namespace)}/bomb").status_code == 404


@pytest.mark.parametrize("resource", GOOD, ids=lambda resource: resource.kind)
def test_spec_when_it_is_deeper_than_the_api_server_reads_then_it_is_refused_wherever_it_is(
    api: httpx2.Client, namespace: str, resource: ApiResource
) -> None:
    assert create(api, resource, namespace, beside(GOOD[resource], nested(DEEPER))).status_code == 400


@pytest.mark.parametrize("resource", GOOD, ids=lambda resource: resource.kind)
def test_spec_when_it_is_larger_than_a_request_may_be_then_it_is_refused(
    api: httpx2.Client, namespace: str, resource: ApiResource
) -> None:
    assert create(api, resource, namespace, beside(GOOD[resource], f'"{"x" * 4 * 2**20}"')).status_code == 413

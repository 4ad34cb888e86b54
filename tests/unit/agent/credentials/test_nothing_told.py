"""What a tenant's Secret holds goes to its server and to Argo CD, and nowhere else."""

from __future__ import annotations

import logging
import traceback
from dataclasses import replace
from pathlib import Path

import pytest
import structlog

from services.agent.credentials.check_result import ClusterUnavailable
from tests.unit.agent.credentials.given import SETTINGS, TOKEN, Given, answers, kubeconfig, stranger

PASSWORD = "PLANTED-PASSWORD"


async def test_logs_when_checks_fail_in_every_way_then_they_hold_no_secret(
    given: Given, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    trusting = replace(given, settings=replace(SETTINGS, git_authorities=tmp_path / "pki" / "ca.crt"))
    with structlog.testing.capture_logs() as lines:
        async with stranger(tmp_path / "pki", answers({"token": TOKEN}, 401)) as server:
            text = kubeconfig(server.url, authority=server.authority)
            for changed in ({}, {"createServiceAccount": True}):
                row = given.cluster_row(server.url, {"kubeconfig": text}, **changed)
                assert (await trusting.checker().compose_secret(row, None)).secret is None
            await trusting.checker().remove_account(row, None)
            login = {"username": "ann", "password": PASSWORD}
            composed = await trusting.checker().compose_secret(given.repository_row(f"{server.url}/a", login), None)
            assert composed.reason == "InvalidCredentials"
    assert [line["event"] for line in lines] == ["service account left behind"]
    for told in (caplog.text, repr(lines)):
        assert TOKEN not in told
        assert PASSWORD not in told


async def test_error_when_a_cluster_is_silent_then_its_traceback_holds_no_secret(given: Given) -> None:
    url = "https://127.0.0.1:1"
    row = given.cluster_row(url, {"kubeconfig": kubeconfig(url)}, createServiceAccount=True)
    with pytest.raises(ClusterUnavailable) as silent:
        await given.checker().remove_account(row, None)
    assert TOKEN not in "".join(traceback.format_exception(silent.value))
    assert silent.value.__context__ is None

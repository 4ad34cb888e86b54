from __future__ import annotations

from typing import Any

import pytest

from services.agent.credentials.clusters.rights import (
    CREATE_NAMESPACES,
    READ_EVERYTHING,
    namespaced_resources,
    whole_cluster,
)
from services.agent.credentials.clusters.service_account import Account, TooOld

DISCOVERY = {
    "items": [
        {
            "metadata": {"name": "apps"},
            "versions": [
                {
                    "resources": [
                        {
                            "resource": "deployments",
                            "scope": "Namespaced",
                            "subresources": [{"subresource": "scale"}, {"subresource": "status"}],
                        },
                        {"resource": "machines", "scope": "Cluster"},
                    ]
                },
                {"resources": [{"resource": "replicasets", "scope": "Namespaced"}]},
            ],
        },
        {
            "metadata": {"name": "cluster.example.com"},
            "versions": [{"resources": [{"resource": "n", "scope": "Cluster"}]}],
        },
    ]
}


def test_rules_when_made_of_a_discovery_then_writing_is_for_what_lives_in_namespaces() -> None:
    rules = whole_cluster(namespaced_resources(DISCOVERY))
    assert rules == [
        READ_EVERYTHING,
        {
            "apiGroups": ["apps"],
            "resources": ["deployments", "deployments/scale", "deployments/status", "replicasets"],
            "verbs": ["*"],
        },
        CREATE_NAMESPACES,
    ]


def test_discovery_when_hostile_then_no_wildcard_gets_in() -> None:
    hostile = {
        "items": [
            {"versions": [{"resources": [{"resource": "*", "scope": "Namespaced"}]}]},
            {
                "versions": [
                    {"resources": [{"resource": "a", "scope": "Namespaced", "subresources": [{"subresource": "*"}]}]}
                ]
            },
            {"versions": "x"},
            7,
        ]
    }
    assert namespaced_resources(hostile) == [("", []), ("", ["a"]), ("", [])]


async def test_cluster_when_it_tells_its_resources_one_group_at_a_time_then_it_is_too_old() -> None:
    class Before126:
        """Answers discovery in the former form, whatever it is asked to accept."""

        async def read_path(self, path: str, *_: object) -> dict[str, object]:
            return {"kind": "APIVersions" if path == "/api" else "APIGroupList"}

    target: Any = Before126()
    with pytest.raises(TooOld):
        await Account(target, "uid-1")._whole_cluster()

"""Operators' orders about the fleet, from the command to the topic that whoever follows the fleet reads."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from typer.testing import Result

from devstack.harness.hosted import HostedStack
from services.cli.fleet.fleet_orders import send_order
from services.common.avro import SchemaRegistry, decode_record
from services.common.errors import InvalidConfiguration
from services.common.kafka import FLEET, PartitionReader
from services.common.messages import AddEngineCluster, AddEngineInstance, FleetOrder, RetireEngineInstance
from tests.e2e.operators import of_clusters, of_instances

DECIDED = "SELECT outcome, message FROM fleet_orders WHERE id = %s"
DEADLINE_SECONDS = 120
CLUSTER = "north"


@pytest.fixture
def instance(stack: HostedStack) -> Iterator[str]:
    """The id of an instance to be added: in a cluster that no agent looks after, for a workspace that nobody has."""
    assert of_clusters(stack, "add", CLUSTER, "--region", "eu").exit_code == 0
    name = f"engine-{uuid4().hex[:8]}"
    yield name
    retired = of_instances(stack, "retire", name)
    assert retired.exit_code == 0, retired.output


def add(stack: HostedStack, name: str, *options: str) -> Result:
    dedicated = ("--class", "dedicated", "--dedicated-to", "nobody")
    return of_instances(stack, "add", name, "--cluster", CLUSTER, *dedicated, *options)


def told_of(name: str) -> str:
    """What whoever adds an instance is told."""
    return f"it takes tenants once its agent tells that it works: 'gitopsctl engines show {name}' shows how far that is"


def streamed(stack: HostedStack, name: str) -> list[dict[str, Any]]:
    """What gitops.fleet holds of an instance, in order."""
    registry = SchemaRegistry(stack.environment["SCHEMA_REGISTRY_URL"])
    with PartitionReader(stack.log, "tests") as reader:
        messages = reader.read_messages(reader.end_offsets(reader.partitions_of(FLEET)))
        rows = [decode_record(registry, message.value) for message in messages]
    return [row for row in rows if row["id"] == name]


def until_streamed(stack: HostedStack, name: str, state: str) -> dict[str, Any]:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not (rows := streamed(stack, name)) or rows[-1]["state"] != state:
        assert time.monotonic() < deadline, rows
    return rows[-1]


def test_instance_when_ordered_then_it_is_listed_and_streamed_and_the_same_order_again_changes_nothing(
    stack: HostedStack, instance: str
) -> None:
    for outcome in (f"accepted, {told_of(instance)}", "unchanged, it is known"):
        ordered = add(stack, instance, "--ring", "canary", "--capacity", "7")
        assert (ordered.exit_code, ordered.stdout) == (0, f"{instance}: {outcome}\n"), ordered.output
    row = until_streamed(stack, instance, "provisioning")
    assert (row["engine_cluster"], row["region"], row["namespace"]) == (CLUSTER, "eu", instance)
    assert (row["ring"], row["capacity"], len(streamed(stack, instance))) == ("canary", 7, 1)
    instances = json.loads(of_instances(stack, "list", "-o", "json").stdout)
    (listed,) = [each for each in instances if each["id"] == instance]
    assert (listed["state"], listed["tenants"]) == ("provisioning", 0)
    assert "dedicated to" in of_instances(stack, "show", instance).stdout


def test_order_when_it_breaks_a_rule_then_the_command_fails_and_names_it(stack: HostedStack, instance: str) -> None:
    assert add(stack, instance).exit_code == 0
    ordered = add(stack, f"{instance}-2", "--namespace", instance)
    assert (ordered.exit_code, ordered.stdout) == (1, "")
    assert ordered.stderr == (
        f"{instance}-2: refused, namespace {instance} of engine cluster north is engine instance {instance}'s: "
        "give another --namespace\n"
    )
    assert isinstance(of_instances(stack, "show", f"{instance}-2").exception, InvalidConfiguration)


def test_order_when_it_is_sent_again_later_then_nothing_changes(stack: HostedStack, instance: str) -> None:
    given = AddEngineInstance(instance, CLUSTER, instance, "argocd", "dedicated", "nobody", "general", 7)
    retire = FleetOrder(uuid4(), "ada", datetime.now(UTC), RetireEngineInstance(instance))
    first = FleetOrder(uuid4(), "ada", datetime.now(UTC), given)
    send_order(stack.log, first)
    until_streamed(stack, instance, "provisioning")
    assert of_instances(stack, "dedicate", instance, "--shared").exit_code == 0
    for replayed in (first, retire):
        send_order(stack.log, replayed)
    refused = of_instances(stack, "drain", "of-nobody")  # decided on behind them
    assert "there is no engine instance 'of-nobody'" in refused.stderr
    instances = json.loads(of_instances(stack, "list", "-o", "json").stdout)
    known = [(each["state"], each["class"]) for each in instances if each["id"] == instance]
    assert known == [("provisioning", "shared")]
    until_streamed(stack, instance, "provisioning")


def test_order_when_its_time_is_to_come_then_it_counts_as_of_now_and_the_next_one_is_newer(
    stack: HostedStack, instance: str
) -> None:
    given = AddEngineInstance(instance, CLUSTER, instance, "argocd", "dedicated", "nobody", "general", 7)
    send_order(stack.log, FleetOrder(uuid4(), "ada", datetime.now(UTC) + timedelta(hours=1), given))
    until_streamed(stack, instance, "provisioning")
    assert of_instances(stack, "dedicate", instance, "--shared").stdout.startswith(f"{instance}: accepted")


def test_order_when_only_tried_then_the_same_rules_answer_and_nothing_is_sent(
    stack: HostedStack, instance: str
) -> None:
    tried = add(stack, instance, "--dry-run")
    assert tried.stdout == f"{instance}: would be accepted, {told_of(instance)}\n"
    refused = add(stack, instance, "--ring", "outer", "--dry-run")
    assert (refused.exit_code, refused.stderr) == (
        1, f"{instance}: would be refused, there is no ring 'outer', only canary, early, general\n",
    )  # fmt: skip
    assert isinstance(of_instances(stack, "show", instance).exception, InvalidConfiguration)
    assert add(stack, instance).stdout == f"{instance}: accepted, {told_of(instance)}\n"


def test_cluster_when_added_twice_then_it_is_there_once_and_its_region_stays(stack: HostedStack) -> None:
    assert of_clusters(stack, "add", CLUSTER, "--region", "eu").exit_code == 0
    again = of_clusters(stack, "add", CLUSTER, "--region", "eu")
    assert again.stdout.splitlines() == [
        "gitops.engine.north: 6 partitions",
        "gitops.observations.north: 12 partitions",
        "agent-north: 4 topics, 1 groups",
        "provisioner-north: 2 topics, 1 groups",
        "north: unchanged, it is known",
    ]
    moved = of_clusters(stack, "add", CLUSTER, "--region", "us")
    assert moved.exit_code == 1
    assert moved.stderr.startswith("north: refused, engine cluster north is in region 'eu', not 'us', for good: ")
    listed = json.loads(of_clusters(stack, "list", "-o", "json").stdout)
    assert [(each["id"], each["region"]) for each in listed if each["id"] == CLUSTER] == [(CLUSTER, "eu")]


def test_cluster_when_ordered_before_it_has_a_topic_then_it_is_refused_and_rows_of_others_are_streamed(
    stack: HostedStack, instance: str
) -> None:
    cluster = f"west-{uuid4().hex[:8]}"
    order = FleetOrder(uuid4(), "ada", datetime.now(UTC), AddEngineCluster(cluster, "eu"))
    send_order(stack.log, order)
    behind = of_instances(stack, "add", f"{instance}-west", "--cluster", cluster)
    assert f"refused, there is no engine cluster '{cluster}'" in behind.stderr
    with psycopg.connect(stack.environment["DATABASE_OWNER_URL"]) as owner:
        assert owner.execute(DECIDED, (order.id,)).fetchone() == (
            "refused",
            f"engine cluster {cluster} has no topic gitops.engine.{cluster}: 'gitopsctl engine-clusters add {cluster}' "
            "makes it",
        )
    assert add(stack, instance).exit_code == 0
    until_streamed(stack, instance, "provisioning")
    tried = of_clusters(stack, "add", cluster, "--region", "eu", "--dry-run")
    assert tried.stdout.splitlines()[-1] == f"{cluster}: would be accepted", tried.output
    added = of_clusters(stack, "add", cluster, "--region", "eu")
    assert added.stdout.splitlines()[-1] == f"{cluster}: accepted", added.output
    assert of_clusters(stack, "retire", cluster).exit_code == 0

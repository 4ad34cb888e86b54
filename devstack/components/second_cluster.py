"""A second engine cluster (``dev up --engine-clusters 2``): what has to be in it, its agent, its Argo CD simulator.

The cluster and its instance are ordered of a planner, as operators do: so its steps wait for one.
"""

from __future__ import annotations

from devstack.components import services, steps
from devstack.components.stack import Stack
from devstack.components.steps import Command
from devstack.stack.replicas import processes_of
from devstack.stack.second_cluster import NAME, NAMESPACE, PREFIX, PRINCIPAL
from devstack.supervisor.process import Node, Step
from services.cli.kafka.topics import password_variable

API_SERVER = f"{PREFIX}kube-apiserver"
CLUSTER_ADDED, INSTANCE_ADDED = f"{PREFIX}engine-cluster-add", f"{PREFIX}engine-add"
PREPARED = ("engine-crds-apply", "engine-namespaces", "rbac-apply", "simulator-rbac-apply")
"""Steps of the first cluster that each engine cluster needs."""


def nodes(stack: Stack) -> list[Node]:
    """Its steps and services; its control plane is with the others'."""
    prepared = [
        Command(PREFIX + each.name, each.arguments, tuple(PREFIX + needed for needed in each.depends_on))
        for each in steps.COMMANDS
        if each.name in PREPARED
    ]
    planners = processes_of("planner", stack.replicas)
    ordered = (
        Command(CLUSTER_ADDED, ("engine-clusters", "add", NAME), planners),
        Command(INSTANCE_ADDED, ("engines", "add", NAMESPACE, "--cluster", NAME), (CLUSTER_ADDED,)),
    )
    there = {"KUBECONFIG": str(stack.second_cluster.kubeconfig), "ENGINE_NAMESPACES": NAMESPACE}
    password = {password_variable(PRINCIPAL): stack.secrets[f"kafka-{PRINCIPAL}"]}
    environment = stack.base_environment() | stack.environment() | there | password
    needed = (f"{PREFIX}kube-controller-manager", *(each.name for each in prepared), CLUSTER_ADDED)
    return [
        *(Step(each.name, each.argv(), environment, each.depends_on) for each in (*prepared, *ordered)),
        *(services.of_second_cluster(stack, service, needed) for service in services.OF_ENGINE_CLUSTERS),
    ]

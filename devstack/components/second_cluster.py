"""A second engine cluster (``dev up --engine-clusters 2``): what has to be in it, its agent, and its Argo CD simulator.

The cluster and its instance are ordered of a planner, as operators do: so its steps wait for one. The stack is up when
the instance takes tenants, which its agent has to tell. Processes of a real
Argo CD are with the others'; if it is a spare, its instance is still to be ordered.
"""

from __future__ import annotations

from devstack.components import argocd, services, steps
from devstack.components.stack import Stack
from devstack.components.steps import Command
from devstack.stack.replicas import processes_of
from devstack.stack.second_cluster import NAME, NAMESPACE, PREFIX, PRINCIPAL
from devstack.supervisor.process import Node, Step
from services.cli.kafka.topics import password_variable

API_SERVER = f"{PREFIX}kube-apiserver"
CLUSTER_ADDED, INSTANCE_ADDED = f"{PREFIX}engine-cluster-add", f"{PREFIX}engine-add"
INSTANCE_READY = f"{PREFIX}engine-wait"
KEYS_MADE = f"{PREFIX}{steps.KEYS}"
CRDS = Command(steps.CRDS, ("crds", "apply", *steps.sources(steps.ENGINE_CRDS)), ("kube-apiserver",))
"""No tenant has a workspace there."""
PREPARED = ("engine-namespaces", "rbac-apply")
"""Steps of the first cluster that each engine cluster needs."""
ARGOCD_RBAC = f"{NAME}.yaml"
"""The account of the application controller, and its bindings."""


def nodes(stack: Stack) -> list[Node]:
    """Its steps and services; its control plane is with the others'."""
    prepared = _prepared(stack)
    planners = processes_of("planner", stack.replicas)
    made = ("keys", "generate", "--engine-cluster", NAME, "--if-missing")
    keys = [Command(KEYS_MADE, made, (steps.KEYS, API_SERVER))] if stack.has_keys_of_clusters else []
    ordered = [Command(CLUSTER_ADDED, ("engine-clusters", "add", NAME), planners), *keys]
    if not stack.spares:
        ordered += [
            Command(INSTANCE_ADDED, ("engines", "add", NAMESPACE, "--cluster", NAME), (CLUSTER_ADDED,)),
            Command(INSTANCE_READY, ("engines", "wait", NAMESPACE), (INSTANCE_ADDED, f"{PREFIX}agent")),
        ]
    there = {
        "KUBECONFIG": str(stack.second_cluster.kubeconfig),
        "ENGINE_NAMESPACES": NAMESPACE,
        "SEALING_PRIVATE_KEYS": str(stack.second_cluster.private_keys),
    }
    password = {password_variable(PRINCIPAL): stack.secrets[f"kafka-{PRINCIPAL}"]}
    environment = stack.base_environment() | stack.environment() | there | password
    needed = (f"{PREFIX}kube-controller-manager", *(each.name for each in (*prepared, *keys)), CLUSTER_ADDED)
    return [
        *(Step(each.name, each.argv(), environment, each.depends_on) for each in (*prepared, *ordered)),
        *(
            services.of_second_cluster(stack, service, needed)
            for service in services.OF_ENGINE_CLUSTERS
            if service != services.SIMULATOR or not stack.with_argocd
        ),
    ]


def _prepared(stack: Stack) -> list[Command]:
    """The same as in the first cluster; what both need, such as the keys of the git servers, is made once."""
    wanted = [CRDS, *(each for each in steps.COMMANDS if each.name in PREPARED)]
    if stack.tools.argocd is not None:
        wanted += argocd.commands(stack.tools.argocd / "crds", ARGOCD_RBAC)
    own = {each.name for each in wanted} | {"kube-apiserver"}
    return [
        Command(
            PREFIX + each.name,
            each.arguments,
            tuple(PREFIX + needed if needed in own else needed for needed in each.depends_on),
        )
        for each in wanted
    ]

"""From network policies to a packet filter: what each pod may send and receive, as one table of nftables.

Addresses and ports are seen as they are once Services have been translated. A pod that no policy selects sends and
receives what it likes; an address of the pods' network that belongs to no pod known yet, nothing. What the node itself
sends to its pods, such as probes, passes. Pods have addresses of IPv4 only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_network
from typing import Any

from devstack.stack.node_addresses import NODE_BRIDGE, POD_BRIDGE, PODS

TABLE = "gitops-pods"
ENDED = ("Succeeded", "Failed")
WAYS = {"Egress": ("to", "daddr"), "Ingress": ("from", "saddr")}
"""By direction: the field of a rule with the other side's description, and where a packet has its address."""

Manifest = Mapping[str, Any]


@dataclass(frozen=True)
class Cluster:
    """What policies speak of."""

    pods: Sequence[Manifest]
    namespaces: Sequence[Manifest]
    policies: Sequence[Manifest]


def ruleset(cluster: Cluster) -> str:
    """A script for ``nft`` that replaces the table by one that says what ``cluster`` does."""
    pods = [pod for pod in cluster.pods if _has_own_address(pod)]
    chains = {(pod["status"]["podIP"], way): list(_chain(pod, way, cluster, pods)) for pod in pods for way in WAYS}
    return "\n".join(
        [f"table inet {TABLE}", f"delete table inet {TABLE}", f"table inet {TABLE} {{", *_body(chains), "}", ""]
    )


def _body(chains: Mapping[tuple[str, str], list[str]]) -> Iterator[str]:
    for (address, way), rules in chains.items():
        if rules:
            yield _block(_name(address, way), rules)
    for way, side in (("Egress", "saddr"), ("Ingress", "daddr")):
        targets = [
            f"{address} : {f'goto {_name(address, way)}' if rules else 'return'}"
            for (address, direction), rules in chains.items()
            if direction == way
        ]
        known = [f"ip {side} vmap {{ {', '.join(targets)} }}"] if targets else []
        yield _block(way.lower(), [*known, "drop"])
    yield _block(
        "forward",
        [
            "type filter hook forward priority filter; policy accept;",
            "ct state established,related accept",
            # Nothing that a pod sends leaves the machine.
            f'ip saddr {PODS} oifname != {{ "{POD_BRIDGE}", "{NODE_BRIDGE}" }} drop',
            f"ip saddr {PODS} jump egress",
            f"ip daddr {PODS} jump ingress",
        ],
    )
    yield _block(
        "input",
        [
            "type filter hook input priority filter; policy accept;",
            "ct state established,related accept",
            f'iifname "{POD_BRIDGE}" ip saddr {PODS} jump egress',
        ],
    )


def _chain(pod: Manifest, way: str, cluster: Cluster, pods: Sequence[Manifest]) -> Iterator[str]:
    """Rules for one pod in one direction; none if no policy selects it."""
    own = [policy for policy in cluster.policies if _holds_for(policy, pod, way)]
    for policy in own:
        for rule in policy["spec"].get(way.lower()) or []:
            yield from _allowed(rule, way, policy, pod, cluster, pods)
    if own:
        yield "drop"


def _allowed(
    rule: Manifest, way: str, policy: Manifest, pod: Manifest, cluster: Cluster, pods: Sequence[Manifest]
) -> Iterator[str]:
    field, side = WAYS[way]
    namespace = policy["metadata"]["namespace"]
    for peer in rule.get(field) or [None]:
        others = [] if peer is None or "ipBlock" in peer else _selected(peer, namespace, cluster.namespaces, pods)
        addresses = _addresses(peer, others, side)
        for port in rule.get("ports") or [None]:
            # A port's name is one of the pod that is called.
            for ports in _ports(port, others if way == "Egress" else [pod]):
                if addresses is not None:
                    yield " ".join(filter(None, (addresses, ports, "return")))


def _addresses(peer: Manifest | None, others: Sequence[Manifest], side: str) -> str | None:
    """A match for the other side; empty: anybody; None: nobody."""
    if peer is None:
        return ""
    if (block := peer.get("ipBlock")) is None:
        members = ", ".join(sorted({other["status"]["podIP"] for other in others}))
        return f"ip {side} {{ {members} }}" if members else None
    if ip_network(block["cidr"]).version != 4:  # noqa: PLR2004 - of the Internet Protocol
        return None
    excepted = ", ".join(block.get("except") or [])
    return f"ip {side} {block['cidr']}" + (f" ip {side} != {{ {excepted} }}" if excepted else "")


def _ports(port: Manifest | None, called: Sequence[Manifest]) -> Iterator[str]:
    """Matches for a port of a rule."""
    if port is None:
        yield ""
        return
    protocol = port.get("protocol", "TCP").lower()
    number = port.get("port")
    if number is None:
        yield f"meta l4proto {protocol}"
    elif isinstance(number, int):
        yield f"{protocol} dport {number}" + (f"-{port['endPort']}" if "endPort" in port else "")
    else:
        for found in sorted({found for pod in called for found in _named_ports(pod, number)}):
            yield f"{protocol} dport {found}"


def _named_ports(pod: Manifest, name: str) -> Iterator[int]:
    for container in pod["spec"]["containers"]:
        for port in container.get("ports") or []:
            if port.get("name") == name:
                yield port["containerPort"]


def _holds_for(policy: Manifest, pod: Manifest, way: str) -> bool:
    spec = policy["spec"]
    default = ["Ingress", *(["Egress"] if "egress" in spec else [])]
    return (
        policy["metadata"]["namespace"] == pod["metadata"]["namespace"]
        and way in (spec.get("policyTypes") or default)
        and selects(spec.get("podSelector") or {}, pod)
    )


def _selected(
    peer: Manifest, namespace: str, namespaces: Iterable[Manifest], pods: Iterable[Manifest]
) -> list[Manifest]:
    """The pods that a peer of a policy in ``namespace`` describes."""
    there = {namespace}
    if (selector := peer.get("namespaceSelector")) is not None:
        there = {item["metadata"]["name"] for item in namespaces if selects(selector, item)}
    chosen = peer.get("podSelector") or {}
    return [pod for pod in pods if pod["metadata"]["namespace"] in there and selects(chosen, pod)]


def selects(selector: Manifest, manifest: Manifest) -> bool:
    """Whether a label selector takes an object; an empty one takes everything."""
    labels = manifest["metadata"].get("labels") or {}
    wanted = selector.get("matchLabels") or {}
    return wanted.items() <= labels.items() and all(
        _meets(expression, labels) for expression in selector.get("matchExpressions") or []
    )


def _meets(expression: Manifest, labels: Mapping[str, str]) -> bool:
    key, values = expression["key"], expression.get("values") or []
    match expression["operator"]:
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
    raise ValueError(f"a selector has no operator {expression['operator']}")


def _has_own_address(pod: Manifest) -> bool:
    status = pod.get("status") or {}
    return bool(status.get("podIP")) and not pod["spec"].get("hostNetwork") and status.get("phase") not in ENDED


def _name(address: str, way: str) -> str:
    return f"{way.lower()}-{address}"


def _block(name: str, rules: Iterable[str]) -> str:
    return "\n".join([f"  chain {name} {{", *(f"    {rule}" for rule in rules), "  }"])

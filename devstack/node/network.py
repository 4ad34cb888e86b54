"""The node's part of the machine's network: an address, routes that keep traffic on the machine, kernel settings."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from devstack.node.commands import run
from devstack.stack.node_addresses import NODE, NODE_BRIDGE, NODE_NETWORK, POD_BRIDGE, PODS, SERVICES

FORWARDING = "net/ipv4/ip_forward"
SETTINGS: Mapping[str, str] = {
    FORWARDING: "1",
    "net/bridge/bridge-nf-call-iptables": "1",  # packets between pods pass the filter, too
}
CHANGED_BY_OTHERS = (
    *("vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops"),  # the kubelet
    *("kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes"),
    *("net/netfilter/nf_conntrack_tcp_timeout_established", "net/netfilter/nf_conntrack_tcp_timeout_close_wait"),
)
"""Settings that programs of the node change without asking."""

KERNEL = Path("/proc/sys")
TABLES = (("inet", "gitops-pods"), ("ip", "kube-proxy"), ("ip6", "kube-proxy"))
OTHERS = ("ip", "filter", "FORWARD")
"""The chain whose policy a Docker engine makes to drop what is not its own."""
LAST_RESORT = "4096"
"""Metric of a route that counts when there is no other."""


def set_up(remembered: Path) -> None:
    """Make it, once what was there before is written to ``remembered``. Raises Unavailable."""
    if not remembered.exists():
        remembered.write_text(json.dumps(current_settings()))
    # First of all: what is not on this machine must not be looked for elsewhere.
    for network in (PODS, NODE_NETWORK):
        run("ip", "route", "replace", "blackhole", network, "metric", LAST_RESORT)
    run("ip", "link", "add", NODE_BRIDGE, "type", "bridge")
    run("ip", "address", "add", f"{NODE}/24", "dev", NODE_BRIDGE)
    run("ip", "link", "set", NODE_BRIDGE, "up")
    # No blackhole: addresses of Services are translated on their way out, which needs one.
    run("ip", "route", "replace", SERVICES, "dev", NODE_BRIDGE)
    for name, value in SETTINGS.items():
        (KERNEL / name).write_text(value)
    if _rules_of_others() is not None:
        for side in ("iifname", "oifname"):
            run("nft", "insert", "rule", *OTHERS, side, POD_BRIDGE, "accept")


def take_down(remembered: Path) -> None:
    """Remove all of it, however much there is. Raises Unavailable."""
    links = {link["ifname"] for link in json.loads(run("ip", "-json", "link"))}
    for bridge in links & {NODE_BRIDGE, POD_BRIDGE}:
        run("ip", "link", "delete", bridge)
    blackholes = json.loads(run("ip", "-json", "route", "show", "type", "blackhole"))
    for network in {route["dst"] for route in blackholes} & {PODS, NODE_NETWORK}:
        run("ip", "route", "delete", "blackhole", network, "metric", LAST_RESORT)
    _remove_filters()
    if remembered.exists():
        has_engine = _rules_of_others() is not None
        for name, value in json.loads(remembered.read_text()).items():
            if name != FORWARDING or not has_engine:  # one that has come meanwhile has found it on, and needs it
                (KERNEL / name).write_text(value)
        remembered.unlink()


def _remove_filters() -> None:
    tables = run("nft", "list", "tables").splitlines()
    for family, table in TABLES:
        if f"table {family} {table}" in tables:
            run("nft", "delete", "table", family, table)
    for rule in _rules_of_others() or []:
        if POD_BRIDGE in json.dumps(rule["expr"]):
            run("nft", "delete", "rule", *OTHERS, "handle", str(rule["handle"]))


def _rules_of_others() -> list[dict[str, Any]] | None:
    """What is in that chain; None if there is none."""
    chains = json.loads(run("nft", "--json", "list", "chains"))["nftables"]
    names = [(item["family"], item["table"], item["name"]) for item in (entry.get("chain") for entry in chains) if item]
    if OTHERS not in names:
        return None
    listed = json.loads(run("nft", "--json", "list", "chain", *OTHERS))["nftables"]
    return [entry["rule"] for entry in listed if "rule" in entry]


def current_settings() -> dict[str, str]:
    """Those of the kernel that a node changes."""
    return {name: (KERNEL / name).read_text() for name in (*SETTINGS, *CHANGED_BY_OTHERS) if (KERNEL / name).exists()}

"""Applications, AppProjects and Secrets of Argo CD: each that must be there, as it must be, and no other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from chaos.checker.applications import applications
from chaos.checker.difference import Difference
from chaos.checker.expected import Expected, Name
from chaos.checker.projects import projects
from chaos.checker.secrets import cluster_secrets, repository_secrets
from chaos.checker.tenants import Tenant
from chaos.checker.world import World
from chaos.record import Record, content_of, key_of
from services.common.kubernetes import Manifest

EXPECTATIONS = (applications, projects, cluster_secrets, repository_secrets)

Found = Mapping[Name, Sequence[Manifest]]


def object_differences(world: World, tenants: Sequence[Tenant], record: Record) -> Iterator[Difference]:
    """All of them."""
    expected = {each.name: each for tenant in tenants for expect in EXPECTATIONS for each in expect(tenant)}
    found: dict[Name, list[Manifest]] = defaultdict(list)
    for item in world.of_engines:
        found[item["kind"], item["metadata"]["name"]].append(item)
    for each in expected.values():
        yield from _compared(each, found.get(each.name, []))
    yield from _unexpected(expected, found, record)
    yield from _foreign(found, record)
    yield from _scattered(expected, found)


def _compared(expected: Expected, found: Sequence[Manifest]) -> Iterator[Difference]:
    subject = " ".join(expected.name)
    if not found and expected.is_certain:
        yield Difference("missing", subject, "it is not there", expected.tenant)
    if len(found) > 1:
        yield Difference("extra", subject, f"it is there {len(found)} times", expected.tenant)
    for item in found:
        ending = ["it is being deleted"] if item["metadata"].get("deletionTimestamp") else []
        if problems := ending or expected.problems(item):
            yield Difference("differs", subject, "; ".join(problems), expected.tenant)


def _unexpected(expected: Mapping[Name, Expected], found: Found, record: Record) -> Iterator[Difference]:
    for name in found.keys() - expected.keys() - record.before:
        for item in found[name]:
            if key_of(item) not in record.foreign:
                yield Difference("extra", f"{name[0]} {item['metadata']['namespace']}/{name[1]}", "nothing asks for it")


def _foreign(found: Found, record: Record) -> Iterator[Difference]:
    """What is not ours is left alone."""
    live = {key_of(item): item for items in found.values() for item in items}
    for key, made in record.foreign.items():
        item = live.get(key)
        if item is None:
            yield Difference("missing", "/".join(key), "it is somebody else's, and is gone")
        elif content_of(item) != content_of(made) or item["metadata"].get("labels") != made["metadata"].get("labels"):
            yield Difference("differs", "/".join(key), "it is somebody else's, and was changed")


def _scattered(expected: Mapping[Name, Expected], found: Found) -> Iterator[Difference]:
    """All that a tenant has is in one engine namespace."""
    places: dict[str, set[str]] = defaultdict(set)
    for name, each in expected.items():
        places[each.tenant] |= {item["metadata"]["namespace"] for item in found.get(name, [])}
    for tenant, namespaces in places.items():
        if len(namespaces) > 1:
            yield Difference("differs", f"tenant {tenant}", f"it is in {' and '.join(sorted(namespaces))}", tenant)

"""What a forcibly removed deployment may have left behind, without what the next one of its name has reclaimed.

If an engine does not finish a deletion in time, nobody waits for it or looks again. What is known are the resources in
the last status. A resource that the next deployment of the name shows as its own, in the same environment, belongs to
that one from then on. The others may still exist, and only the user removes them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import orjson

from services.common.json_values import canonical
from services.kinds.gitops_deployment.catalogue import LEFT_BEHIND
from services.kinds.gitops_deployment.rows import Deployment, ForcedDeletion
from services.kinds.gitops_deployment.validation import accepted_deployment
from services.kinds.shared.conditions import ActiveConditions

SHOWN_FOR = timedelta(days=7)
"""How long it is shown."""
MAX_BYTES = 16 * 1024
"""Bytes of stored resources per deployment: some 200, or 25 with the longest names."""
MOST_NAMED = 50
"""Resources that a text names: 30 KB with the longest names."""

Resource = tuple[str, str, str, str]
"""Group, kind, namespace and name."""


def resources_of(shown: Iterable[Mapping[str, object]]) -> list[Resource]:
    """The resources in a status."""
    return [
        (
            str(each.get("group", "")),
            str(each.get("kind", "")),
            str(each.get("namespace", "")),
            str(each.get("name", "")),
        )
        for each in shown
    ]


def environment_of(deployment: Deployment) -> str:
    """The environment that it deploys to, by the tenant's name for it; empty: none, or it does not deploy."""
    if deployment.spec is None:
        return ""
    return accepted_deployment(deployment.spec).destination.environment or ""


def forced_deletion(deployment: Deployment, resources: Sequence[Resource], at: datetime) -> ForcedDeletion | None:
    """The record of ``deployment``, whose removal was forced; None if it never showed any resources."""
    known = _within(resources)
    if not known:
        return None
    return ForcedDeletion(
        id=deployment.id,
        tenant_id=deployment.tenant_id,
        name=deployment.name,
        environment=environment_of(deployment),
        resources=canonical(known),
        total=len(resources),
        due_at=at + SHOWN_FOR,
    )


def without_reclaimed(left: ForcedDeletion, reclaimed: Collection[Resource]) -> ForcedDeletion | None:
    """``left`` without these resources; None if nothing is known to be left then."""
    known = parsed_resources(left.resources)
    rest = [each for each in known if each not in reclaimed]
    if len(rest) == len(known):
        return left
    total = left.total - (len(known) - len(rest))
    return replace(left, resources=canonical(rest), total=total) if rest else None


def condition(left: Sequence[ForcedDeletion]) -> ActiveConditions:
    """The condition about ``left`` of former deployments of the name; none if there is nothing."""
    if not left:
        return {}
    resources = "; ".join(_located(each) for each in left)
    return {LEFT_BEHIND.type: (LEFT_BEHIND.reason, LEFT_BEHIND.text(resources=resources))}


def parsed_resources(text: str) -> list[Resource]:
    """The resources in the row of a forced deletion."""
    return [(group, kind, namespace, name) for group, kind, namespace, name in orjson.loads(text)]


def listed(resources: Sequence[Resource], total: int | None = None) -> str:
    """The first resources by name, in kubectl's form, and how many more there are, of ``total`` in all."""
    named = ", ".join(_named(*each) for each in resources[:MOST_NAMED])
    more = (len(resources) if total is None else total) - len(resources[:MOST_NAMED])
    return f"{named} and {more} more" if more else named


def _located(left: ForcedDeletion) -> str:
    where = f"environment {left.environment}" if left.environment else "this namespace"
    return f"in {where} {listed(parsed_resources(left.resources), left.total)}"


def _named(group: str, kind: str, namespace: str, name: str) -> str:
    return f"{'.'.join(filter(None, (kind, group)))} {'/'.join(filter(None, (namespace, name)))}"


def _within(resources: Sequence[Resource]) -> Sequence[Resource]:
    """The first resources, as far as they fit."""
    size = 0
    for number, each in enumerate(resources):
        size += len(orjson.dumps(each)) + 1
        if size > MAX_BYTES:
            return resources[:number]
    return resources

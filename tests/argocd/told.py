"""All that a tenant is told of its resources, in order: each status that the API server has shown."""

from __future__ import annotations

import asyncio
import json
import re
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from services.common.kubernetes import ApiResource, Changed, KubeClient, Seen, reflect

DEADLINE_SECONDS = 120
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")


@dataclass
class Told:
    """Of one kind in one namespace."""

    statuses: defaultdict[str, list[dict[str, Any]]] = field(default_factory=lambda: defaultdict(list))
    """By resource, those that differ from the one before."""

    def without_names(self, resource: str, names: Mapping[str, str]) -> list[Any]:
        """The statuses without times, and with the ``names`` of things replaced.

        That an operation runs, and nothing else, is left out: it is not shown if the operation ends within the same
        batch of reports, which is chance.
        """
        shown = [_TIME.sub("<time>", json.dumps(status, sort_keys=True)) for status in self.statuses[resource]]
        for name, replacement in names.items():
            shown = [text.replace(name, replacement) for text in shown]
        said = [status for text in shown if not _only_runs(status := json.loads(text))]
        return [status for number, status in enumerate(said) if number == 0 or said[number - 1] != status]


def _only_runs(status: Mapping[str, Any]) -> bool:
    conditions = status.get("conditions", [])
    return status.get("operation") == {"phase": "Running"} and not any(each["message"] for each in conditions)


async def current(kube: KubeClient, resource: ApiResource, namespace: str) -> dict[str, dict[str, Any]]:
    """The statuses that are shown at present."""
    pages = [page async for page in kube.list_pages(resource, namespace)]
    shown = {each["metadata"]["name"]: each.get("status") for page in pages for each in page.items}
    return {name: status for name, status in shown.items() if status}


@asynccontextmanager
async def told(kube: KubeClient, resource: ApiResource, namespace: str) -> AsyncIterator[Told]:
    """What is told for as long as the block runs, up to what is shown when it ends."""
    heard = Told()

    async def follow() -> None:
        async for event in reflect(kube, resource, namespace):
            if isinstance(event, Changed | Seen):
                name, status = event.object["metadata"]["name"], event.object.get("status")
                if status and heard.statuses[name][-1:] != [status]:
                    heard.statuses[name].append(status)

    following = asyncio.create_task(follow())
    try:
        yield heard
        last = await current(kube, resource, namespace)
        async with asyncio.timeout(DEADLINE_SECONDS):
            # Another one may have followed by then.
            while any(status not in heard.statuses[name] for name, status in last.items()):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)

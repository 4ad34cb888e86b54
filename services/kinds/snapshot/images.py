"""The images of a Snapshot in few bytes: enough to identify their components, and equal images of two Snapshots.

A watcher makes an entry for each component, and sends the entries instead of the components, which may have a megabyte.
Even those of the largest Snapshot are short enough for a row beyond the quota.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from hashlib import sha256
from typing import Any

from services.common.json_values import canonical, dicts_of, digest, text_of
from services.kinds.shared.text import MAX_COMPONENTS

_NAME, _IMAGE = 4, 8
"""Characters of an entry, of 6 bits each."""


def image_entries(spec: Mapping[str, Any]) -> list[str]:
    """An entry for each component of a Snapshot's spec, which may be anything that its CRD admits.

    A component that is named twice has both images: the build service decides which one is deployed.
    """
    images: defaultdict[str, list[str]] = defaultdict(list)
    for each in dicts_of(spec.get("components"))[:MAX_COMPONENTS]:
        images[text_of(each.get("name"))].append(text_of(each.get("containerImage")))
    return sorted(_key(name) + _short([name, *each])[:_IMAGE] for name, each in images.items())


def with_same_image(components: Collection[str], first: Collection[str], second: Collection[str]) -> tuple[str, ...]:
    """Those of ``components`` with the same image in two Snapshots, by the entries of both, sorted."""
    now, then = _by_key(first), _by_key(second)
    return tuple(sorted(each for each in components if (key := _key(each)) in now and now[key] == then.get(key)))


def of_others(entries: Collection[str], components: Collection[str]) -> tuple[str, ...]:
    """Entries of a Snapshot for images of other components."""
    keys = {_key(each) for each in components}
    return tuple(each for each in entries if each[:_NAME] not in keys)


def with_image(components: Collection[str], entries: Collection[str]) -> tuple[str, ...]:
    """Those of ``components`` with an image among ``entries``, sorted."""
    keys = {each[:_NAME] for each in entries}
    return tuple(sorted(each for each in components if _key(each) in keys))


def images_digest(entries: Collection[str]) -> str:
    """A digest of a Snapshot's images; empty: they are unknown."""
    return digest(canonical([*entries])) if entries else ""


def _by_key(entries: Collection[str]) -> dict[str, str]:
    """The entries by key, without keys of two components."""
    keys = Counter(each[:_NAME] for each in entries)
    return {key: each for each in entries if keys[key := each[:_NAME]] == 1}


def _key(component: str) -> str:
    return _short(component)[:_NAME]


def _short(value: Any) -> str:
    return urlsafe_b64encode(sha256(canonical(value).encode()).digest()).decode()

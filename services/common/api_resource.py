"""How the Kubernetes API names a kind of object. Values only: the client is in :mod:`services.common.kubernetes`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Self
from urllib.parse import quote

_GROUP = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?")
_KIND = re.compile(r"[A-Z][A-Za-z0-9]*")


@dataclass(frozen=True, slots=True)
class ApiResource:
    """One kind of object: its group, version, kind, and the plural that paths have."""

    group: str
    version: str
    kind: str
    plural: str

    @property
    def api_version(self) -> str:
        """``group/version`` as manifests carry it; the core group has no prefix."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """Path of one object, or of the collection if ``name`` is None; every part is percent-encoded."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        parts = ["namespaces", namespace] if namespace else []
        parts += [self.plural, *(part for part in (name, subresource) if part)]
        return "/".join([root, *(quote(part, safe="") for part in parts)])


SECRET = ApiResource("", "v1", "Secret", "secrets")


@dataclass(frozen=True, slots=True, order=True)
class GroupKind:
    """A kind of Kubernetes objects in any version."""

    group: str
    """The API group; empty: the core group."""
    kind: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """From ``Kind`` or ``group/Kind``. Raises ValueError."""
        group, slash, kind = text.rpartition("/")
        if not _KIND.fullmatch(kind) or (slash and not _GROUP.fullmatch(group)):
            raise ValueError(f"'{text}' is no kind; write Kind for one of the core group, otherwise group/Kind")
        return cls(group, kind)

    def __str__(self) -> str:
        return f"{self.group}/{self.kind}" if self.group else self.kind

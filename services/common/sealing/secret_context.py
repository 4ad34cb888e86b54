"""What is sealed together with a Secret: where it belongs, and in a binding what it may be used for.

:class:`SealingKeys` puts both into sealed texts, :class:`OpeningKeys` compares them with what is expected. Pure.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace

from services.common.json_values import canonical, digest
from services.common.secret_use import SecretUse

BINDING = "binding"
"""Purpose of a sealed text, in its context; the text of a Secret has none."""


@dataclass(frozen=True, slots=True)
class SecretContext:
    """Where a Secret belongs."""

    workspace: str
    namespace: str
    name: str
    type: str
    namespace_uid: str = ""
    """uid of the namespace; empty: no watcher has sent it."""

    def as_header(self) -> dict[str, str]:
        """The context as it is sealed with the Secret."""
        return {name: value for name, value in asdict(self).items() if value or name != "namespace_uid"}

    def fits_header(self, header: object) -> bool:
        """Whether the header is of this Secret. Watchers that did not know namespaces' uids have sealed names only."""
        sealed_names = dict(header) if isinstance(header, dict) else {}
        uid = sealed_names.pop("namespace_uid", "")
        names = replace(self, namespace_uid="").as_header()
        return sealed_names == names and uid in {self.namespace_uid, ""}


def describe_use(values: Mapping[str, bytes], use: SecretUse) -> dict[str, str]:
    """The content of a binding: digests, so that all bindings have one size."""
    content = {key: base64.b64encode(value).decode() for key, value in values.items()}
    return {"content": digest(canonical(content)), "url": digest(use.url), "terms": digest(use.terms)}

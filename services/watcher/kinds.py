"""The kinds of resource that the watcher follows. Adding one here is all that this service needs."""

from __future__ import annotations

from dataclasses import dataclass

from services.common.kube import (
    GITOPS_DEPLOYMENT,
    MANAGED_ENVIRONMENT,
    REPOSITORY_CREDENTIAL,
    SECRET,
    SYNC_RUN,
    Manifest,
    Resource,
)

SECRET_TYPES = ("managed-gitops.redhat.com/managed-environment", "managed-gitops.redhat.com/repository-credential")
"""The only Secrets that are ever read as a whole: those made for us."""


@dataclass(frozen=True, slots=True)
class Kind:
    """How one kind is followed."""

    resource: Resource
    parts: tuple[str, ...] = ("",)
    """Field selectors of what is followed."""
    one_shot: bool = False
    """Whether each resource is an order of its own: its coming is told even if it has gone since."""
    reference: str = ""
    """The part of the spec that names a Secret."""

    @property
    def name(self) -> str:
        """As manifests, commands and metrics say it."""
        return self.resource.kind

    def secret_of(self, manifest: Manifest) -> str:
        """Name of the Secret that a resource refers to, "" if none. The spec may be anything a user wrote."""
        spec = manifest.get("spec")
        name = spec.get(self.reference) if self.reference and isinstance(spec, dict) else None
        return name if isinstance(name, str) else ""


CUSTOM_KINDS = (
    Kind(GITOPS_DEPLOYMENT),
    Kind(MANAGED_ENVIRONMENT, reference="credentialsSecret"),
    Kind(REPOSITORY_CREDENTIAL, reference="secret"),
    Kind(SYNC_RUN, one_shot=True),
)
SECRETS = Kind(SECRET, parts=tuple(f"type={secret_type}" for secret_type in SECRET_TYPES))
KINDS = (*CUSTOM_KINDS, SECRETS)

BY_NAME = {kind.name: kind.resource for kind in CUSTOM_KINDS}
"""Those that have a status for us to write."""

"""What an API server holds for engines: Applications, and the projects and Secrets that they need."""

from __future__ import annotations

from dataclasses import dataclass

from devstack.harness.mirror import Mirror, Objects
from services.common.kubernetes import Manifest
from tests.e2e.tenant import application_name


@dataclass(frozen=True)
class Held:
    """In all engine namespaces of an engine cluster, or in one of them."""

    applications: Mirror
    projects: Mirror
    secrets: Mirror
    namespace: str = ""
    """Empty: all."""

    async def objects_of(self, created: Manifest) -> set[str]:
        """Names of what a deployment to an environment needs, once all of it is there."""
        name = application_name(created)
        await self.applications.until(f"{name} is there", lambda objects: bool(self._named({name}, objects)))
        spec = self.application(created)["spec"]
        needed = {name, spec["project"], spec["destination"]["name"]}
        assert needed <= self.names()
        return needed

    def application(self, created: Manifest) -> Manifest:
        """The only one of a deployment."""
        (application,) = self._named({application_name(created)}, self.applications.objects)
        return application

    def names(self) -> set[str]:
        """Of all objects."""
        mirrors = (self.applications, self.projects, self.secrets)
        return {name for mirror in mirrors for place, name in mirror.objects if self.namespace in ("", place)}

    async def until_without(self, names: set[str]) -> None:
        """Until it holds none of these."""
        for mirror in (self.applications, self.projects, self.secrets):
            await mirror.until(f"none of {sorted(names)} is there", lambda objects: not self._named(names, objects))

    def _named(self, names: set[str], objects: Objects) -> list[Manifest]:
        found = ((place, item) for (place, name), item in objects.items() if name in names)
        return [item for place, item in found if self.namespace in ("", place)]

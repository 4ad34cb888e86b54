"""Whether Argo CD has refused an Application because of an earlier state of its AppProject. Pure.

Argo CD follows Applications and AppProjects by two watches without a common order. So it may see an Application before
the change of the AppProject that we made for it, and refuse the Application. A change of an AppProject does not make it
compare again: it does so after ``timeout.reconciliation``, or on request.
"""

from __future__ import annotations

from collections.abc import Mapping

from services.agent.objects.desired_objects import source_url
from services.agent.objects.live import LiveObject
from services.agent.objects.managed_kinds import ObjectKey
from services.common.json_values import dict_of, text_at, texts_of
from services.common.kubernetes import APP_PROJECT
from services.common.urls.repository_url import normalised


def saw_stale_project(key: ObjectKey, live: Mapping[ObjectKey, LiveObject]) -> bool:
    """Whether Argo CD says that the AppProject is missing or does not list the repository, and that is no longer so."""
    application = live.get(key)
    if application is None or not application.reconciliation.spec_errors:
        return False
    name, url = text_at(application.owned, "spec.project"), source_url(application.owned)
    project = live.get(ObjectKey(APP_PROJECT.kind, key.namespace, name))
    if project is None or project.deletion_started is not None:
        return False
    listed = texts_of(dict_of(project.owned.get("spec")).get("sourceRepos"))
    return normalised(url) in listed and not _refusals(name, url).isdisjoint(application.reconciliation.spec_errors)


def _refusals(project: str, url: str) -> set[str]:
    """Argo CD's messages: see ``ValidatePermissions`` in its ``util/argo``, and its ``projectErrorToCondition``."""
    return {
        f"application repo {url} is not permitted in project '{project}'",
        f"Application referencing project {project} which does not exist",
    }

"""What a deployment's newest spec comes to: its Application, or the reason why it has to wait.

Called for each change of a deployment, and again when its tenant's environments or allowance change. Level-based: the
outcome follows from the row, the environments and the room there is, not from what happened.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from services.common.api import GitOpsDeploymentSpec
from services.common.api.catalogue import deployment as texts
from services.common.errors import Permanent, Wait
from services.common.urls.repository_url import normalised
from services.planner.canonical import digest
from services.planner.draft import Draft
from services.planner.engines import argocd
from services.planner.engines.argocd import Target
from services.planner.engines.argocd_secrets import cluster_name
from services.planner.environments import environment_views
from services.planner.kinds import gitops_deployment
from services.planner.kinds.gitops_deployment_spec import resolve
from services.planner.kinds.managed_environment import EnvironmentView
from services.planner.kinds.names import GITOPS_DEPLOYMENT
from services.planner.kinds.written_spec import accepted_deployment
from services.planner.rows import Deployment

Views = Mapping[str, EnvironmentView]


def settled(draft: Draft, now: Deployment) -> Deployment:
    """``now``, with its newest spec taken over if that can be had, and its manifest compiled."""
    views = environment_views(draft, now.tenant_id)
    return _compiled(draft, _resolved(draft, now, views), views)


def _resolved(draft: Draft, now: Deployment, views: Views) -> Deployment:
    newest = now.offered or now.spec
    if newest is None or not now.wanted:
        return now
    if not _may_wait(draft, now):
        quota = draft.rules.limits.message(GITOPS_DEPLOYMENT)
        return gitops_deployment.refused(now, texts.QUOTA_NOT_KEPT.text(quota=quota))
    if now.offered is not None and not _has_room(draft, now):
        return replace(now, blocked=draft.rules.limits.message(GITOPS_DEPLOYMENT), over_quota=True)
    return _taken_over(draft, replace(now, blocked="", over_quota=False), newest, views)


def _taken_over(draft: Draft, now: Deployment, newest: str, views: Views) -> Deployment:
    """With ``newest`` as its spec if the environment that it names can be used, or needs none."""
    spec = accepted_deployment(newest)
    environment = spec.destination.environment
    if environment and now.tenant_id in draft.unsettled:
        return now  # settled again when it is known what has become of the environments
    try:
        if not environment:
            _check_local(draft, now)
        resolve(spec, views, exists=now.spec is not None)
    except Wait:
        return now
    except Permanent as error:
        return replace(now, blocked=str(error))
    repository = normalised(spec.source.repo_url)
    return replace(now, spec=newest, offered=None, environment=environment, repository=repository)


def _may_wait(draft: Draft, now: Deployment) -> bool:
    """Offers are kept for as many deployments again as may be had: beyond that they would fill the database."""
    before = draft.deployments.get(now.id)
    waits_already = before is not None and before.spec is None and before.offered is not None
    newcomer = now.spec is None and now.offered is not None and not waits_already
    return not newcomer or draft.allowance.waiting(now.tenant_id) < draft.rules.limits.deployments


def _has_room(draft: Draft, now: Deployment) -> bool:
    limits, allowance = draft.rules.limits, draft.allowance
    if now.spec is None and allowance.deployments(now.tenant_id) >= limits.deployments:
        return False
    return allowance.bytes_with(draft.deployments.get(now.id), now) <= limits.bytes


def _check_local(draft: Draft, now: Deployment) -> None:
    """Raises Permanent if the tenant's namespace is not one of the engine's own cluster, or is the platform's."""
    if not draft.is_local(now.tenant_id):
        foreign = draft.tenants[now.tenant_id].workspace not in draft.rules.local_workspaces
        raise Permanent((texts.NO_LOCAL_CLUSTER if foreign else texts.PLATFORM_NAMESPACE).message)


def _compiled(draft: Draft, now: Deployment, views: Views) -> Deployment:
    """With the digest of its manifest; one that was never sent and is no longer wanted has none."""
    if now.spec is None:
        return now if now.wanted else gitops_deployment.without_application(now)
    sent = draft.state.deployments.get(now.id)
    if not now.wanted:
        # What an engine holds goes as it is: a manifest that changed now would be one more thing to apply.
        draft.manifests.pop(now.id, None)
        if sent is None or sent.spec is None:
            return gitops_deployment.without_application(now)
        return replace(now, spec=sent.spec, repository=sent.repository, digest=sent.digest, offered=None)
    spec = accepted_deployment(now.spec)
    home = draft.home(now.tenant_id)
    manifest = argocd.application(home, now.id, now.uid, spec, _target(spec, views))
    draft.manifests[now.id] = manifest
    return replace(now, digest=digest(manifest))


def _target(spec: GitOpsDeploymentSpec, views: Views) -> Target:
    """Of an environment that is gone with its cluster secret, no cluster at all: what is there is left alone."""
    if not spec.destination.environment:
        return argocd.LOCAL
    view = views.get(spec.destination.environment)
    return Target("") if view is None else Target(cluster_name(view.id), view.cluster_resources)

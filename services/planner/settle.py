"""What a deployment's newest spec comes to: its Application, or the reason why it has to wait.

Called for each change of a deployment, and again when its tenant's environments or allowance change. Level-based: the
outcome follows from the row, the environments and the room there is, not from what happened.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from services.common.api import GitOpsDeploymentSpec
from services.common.errors import Permanent, Wait
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
from services.planner.kinds.repository_url import normalised
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
    limits = draft.rules.limits
    if draft.allowance.bytes_with(draft.deployments.get(now.id), now) > limits.bytes and now.offered is not None:
        # Not kept, or what is refused would fill the database just as well.
        return replace(now, offered=None, blocked=limits.message(GITOPS_DEPLOYMENT), over_quota=False)
    if now.spec is None and draft.allowance.deployments(now.tenant_id) >= limits.deployments:
        return replace(now, blocked=limits.message(GITOPS_DEPLOYMENT), over_quota=True)
    spec = accepted_deployment(newest)
    freed = replace(now, blocked="", over_quota=False)
    try:
        resolve(spec, views, exists=now.spec is not None)
    except Wait:
        return freed
    except Permanent as error:
        return replace(freed, blocked=str(error))
    repository = normalised(spec.source.repo_url)
    environment = spec.destination.environment
    return replace(freed, spec=newest, offered=None, environment=environment, repository=repository)


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
    """Of an environment that is gone, no cluster at all: what was deployed there is left alone."""
    if not spec.destination.environment:
        return argocd.LOCAL
    view = views.get(spec.destination.environment)
    return Target("") if view is None else Target(cluster_name(view.id), view.cluster_resources)

"""All that a tenant shall have on its engine besides Applications, and what differs from what it has.

Called by ``compile`` for each tenant that a batch has touched. Level-based: the wanted objects follow from the draft's
rows; what is held and no longer wanted goes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from uuid import UUID

from services.common.api.catalogue.entry import Reason
from services.common.api.model import ApiModel
from services.common.argocd_names import LOCAL_CLUSTER
from services.common.messages.compiled import RowKind
from services.planner import credentials, environments
from services.planner.canonical import digest
from services.planner.departures import departing_recipe
from services.planner.draft import Draft
from services.planner.engines import argocd
from services.planner.engines.argocd import Destination
from services.planner.engines.argocd_secrets import cluster_name, id_of
from services.planner.kinds.conditions import Refused
from services.planner.kinds.names import MANAGED_ENVIRONMENT, REPOSITORY_CREDENTIAL
from services.planner.kinds.resources import refused
from services.planner.kinds.sealed_secret import is_taken_back
from services.planner.rows import Cause, EngineAbsence, EngineKey, EngineRow, Holding, HoldingKey, Resource
from services.planner.rules import GroupKind
from services.planner.secrets import secret_of

OVERSIZED = "what follows from it and its Secret is longer than 1 MiB; make the Secret smaller"
SECRETS = (RowKind.CLUSTER_SECRET, RowKind.REPOSITORY_SECRET)


@dataclass
class EngineChanges:
    """Rows to write, to mark absent and to delete."""

    rows: list[EngineRow] = field(default_factory=list)
    absent: list[EngineAbsence] = field(default_factory=list)
    departing: list[EngineRow] = field(default_factory=list)
    """Rows to write as absent, in other words than they have."""
    gone: list[EngineKey] = field(default_factory=list)
    oversized: list[EngineKey] = field(default_factory=list)
    """Rows that stay as they are, because nobody could take what they would be."""


class TenantObjects:
    """The wanted objects of one tenant, kind by kind; then the difference to what it has."""

    def __init__(self, draft: Draft, tenant_id: UUID, cause: Cause) -> None:
        self._draft, self._tenant, self._cause = draft, tenant_id, cause
        self._home = draft.home(tenant_id)
        self._before = dict(draft.state.holdings.get(tenant_id, {}))
        self._wanted: dict[HoldingKey, str] = {}
        self._kept: set[HoldingKey] = set()
        self._looked_at: set[str] = set()

    def want_secrets(self) -> None:
        """Cluster and repository secrets.

        A resource that is wrong now keeps what it has, so that a slip does not cut off what runs; but not if the
        Secret that it names is gone: taking that away is how a user takes the credentials back.
        """
        self._looked_at |= {*SECRETS}
        for environment in self._draft.of_kind(self._tenant, MANAGED_ENVIRONMENT):
            if environment.wanted:
                self._want_cluster(environment)
        self._hold((RowKind.CLUSTER_SECRET,))
        in_cluster_project = bool(environments.destinations(self._draft, self._tenant, cluster_resources=True))
        for credential in self._draft.of_kind(self._tenant, REPOSITORY_CREDENTIAL):
            if credential.wanted:
                self._want_repository(credential, in_cluster_project=in_cluster_project)
        self._hold((RowKind.REPOSITORY_SECRET,))
        self._draft.views.pop(self._tenant, None)
        self._draft.unsettled.discard(self._tenant)

    def want_projects(self, repositories: Iterable[str]) -> None:
        """AppProjects, as long as there is an Application or a credential."""
        self._looked_at.add(RowKind.APP_PROJECT)
        allowed = {*repositories, *credentials.repositories(self._draft, self._tenant)}
        if not allowed:
            return
        own, refused_kinds = self._own_namespace()
        ordinary = [*own, *environments.destinations(self._draft, self._tenant, cluster_resources=False)]
        manifest = argocd.app_project(self._home, allowed, ordinary, refused_kinds)
        self._wanted[RowKind.APP_PROJECT, self._home.project] = manifest
        if privileged := environments.destinations(self._draft, self._tenant, cluster_resources=True):
            manifest = argocd.cluster_project(self._home, allowed, privileged)
            self._wanted[RowKind.APP_PROJECT, self._home.cluster_project] = manifest

    def want_syncs(self, manifests: dict[str, str]) -> None:
        """Orders to sync, by name of the Application."""
        self._looked_at.add(RowKind.SYNC_OPERATION)
        self._wanted |= {(RowKind.SYNC_OPERATION, name): manifest for name, manifest in manifests.items()}

    def changes(self) -> EngineChanges:
        """What differs from what the tenant has."""
        changes = EngineChanges()
        for (kind, name), manifest in self._wanted.items():
            if argocd.is_oversized(manifest):
                changes.oversized.append(self._home.key(kind, name))
            elif self._before.get((kind, name)) != _holding(manifest):
                changes.rows.append(argocd.row(self._home, kind, name, manifest, "present", self._cause))
        for key, held in self._before.items():
            if key not in self._wanted and key not in self._kept:
                self._let_go(key, held, changes)
        return changes

    @property
    def is_empty(self) -> bool:
        """Nothing of the tenant's is left on the engine once the changes are made."""
        changes = self.changes()
        return not self._wanted and not self._kept and len(changes.gone) == len(self._before)

    def _own_namespace(self) -> tuple[list[Destination], frozenset[GroupKind]]:
        """On the engine's own cluster, and what cannot be deployed there; nothing if it has none."""
        if not self._draft.is_local(self._tenant):
            return [], frozenset()
        namespace = self._draft.tenants[self._tenant].namespace
        return [Destination(LOCAL_CLUSTER, (namespace,))], self._draft.rules.refused_kinds

    def _want_cluster(self, environment: Resource) -> None:
        try:
            spec = environments.accepted(self._draft, environment)
            manifest = _sized(environments.cluster_secret(self._draft, environment, spec))
        except Refused as why:
            self._refuse(environment, why)
        else:
            self._wanted[RowKind.CLUSTER_SECRET, cluster_name(environment.id)] = manifest
            self._accept(environment, spec)
            environments.forget_if_withdrawn(self._draft, environment)

    def _want_repository(self, credential: Resource, *, in_cluster_project: bool) -> None:
        try:
            spec = credentials.accepted(self._draft, credential)
            self._accept(credential, spec)
            compiled = credentials.repository_secrets(
                self._draft, credential, spec, in_cluster_project=in_cluster_project
            )
            recipes = {name: _sized(recipe) for name, recipe in compiled.items()}
        except Refused as why:
            self._refuse(self._draft.resources[credential.id], why)
        else:
            self._wanted |= {(RowKind.REPOSITORY_SECRET, name): recipe for name, recipe in recipes.items()}

    def _accept(self, resource: Resource, spec: ApiModel) -> None:
        now = replace(refused(resource, None), accepted=spec.model_dump_json(by_alias=True, exclude_none=True))
        self._draft.resources[resource.id] = now

    def _refuse(self, resource: Resource, why: Refused) -> None:
        self._draft.resources[resource.id] = refused(resource, why)
        if why.reason != Reason.SECRET_NOT_FOUND and not is_taken_back(resource, secret_of(self._draft, resource)):
            self._kept |= {key for key, held in self._before.items() if held.wanted and id_of(key[1]) == resource.id}

    def _hold(self, kinds: Iterable[str]) -> None:
        """Let the draft know: deployments look at it."""
        held = self._draft.holdings.setdefault(self._tenant, {})
        for key, manifest in self._wanted.items():
            if key[0] in kinds:
                held[key] = _holding(manifest)
        for key, before in self._before.items():
            if key[0] in kinds and key not in self._wanted and key not in self._kept:
                held[key] = replace(before, wanted=False)

    def _let_go(self, key: HoldingKey, held: Holding, changes: EngineChanges) -> None:
        """An order is withdrawn; an object has to be seen gone before its row may go."""
        kind, name = key
        engine_key = self._home.key(kind, name)
        withdrawn = kind == RowKind.SYNC_OPERATION and kind in self._looked_at
        if withdrawn or (not held.wanted and (self._tenant, key) in self._draft.holdings_removed):
            changes.gone.append(engine_key)
        elif held.wanted and kind in self._looked_at:
            self._take_away(key, changes)

    def _take_away(self, key: HoldingKey, changes: EngineChanges) -> None:
        """Without what an agent does not need in order to do it: a tenant's credentials, and their length."""
        recipe = departing_recipe(self._draft, self._tenant, key[1])
        if recipe is not None:
            changes.departing.append(argocd.row(self._home, *key, recipe, "absent", self._cause))
        else:
            changes.absent.append(EngineAbsence(*self._home.key(*key), self._cause.trace_id, self._cause.at))


def _holding(manifest: str) -> Holding:
    return Holding(wanted=True, digest=digest(manifest), size=len(manifest.encode()))


def _sized(recipe: str) -> str:
    """The same. Raises Refused if nobody could take it."""
    if argocd.is_oversized(recipe):
        raise Refused("Unknown", Reason.INVALID_SPEC, OVERSIZED)
    return recipe

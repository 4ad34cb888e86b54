"""The progress of the promotion to one environment: what its binding deploys, compared with what was promoted."""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar, overload

from services.common.json_values import digest
from services.kinds.application.kind import APPLICATION
from services.kinds.component.model import COMPONENT
from services.kinds.environment.model import ENVIRONMENT
from services.kinds.promotion_run import catalogue as texts
from services.kinds.promotion_run.model import PromotionRunSpec
from services.kinds.shared.reconciled import MAX_LISTED, listed
from services.kinds.shared.text import MAX_COMPONENTS, MAX_LABEL
from services.kinds.snapshot.images import of_others, with_image, with_same_image
from services.kinds.snapshot.model import SNAPSHOT
from services.kinds.snapshot_environment_binding.model import BINDING, BindingSpec

LONGEST_NAME = 250
APPLICATION_LABEL, ENVIRONMENT_LABEL = "appstudio.application", "appstudio.environment"
"""Labels of a binding that was made for a promotion."""


@dataclass(frozen=True, slots=True)
class DeployedComponent:
    """A component of a binding, with the state of its GitOpsDeployment."""

    name: str
    deployment: str
    """Name of its GitOpsDeployment; empty: there is none yet."""
    sync: str = ""
    health: str = ""
    revision: str = ""
    commit: str = ""
    """The commit that has the snapshot, by the build service; empty: not known yet."""
    is_deployed: bool = False
    """Whether its revision is that commit, or one of the same branch named later for any component."""
    applied: str = ""
    """The revision of its last sync, if that succeeded: the sync has changed its manifests."""

    @property
    def is_as_promoted(self) -> bool:
        """Synced, healthy, and at the promoted commit or a later one."""
        return (self.sync, self.health) == ("Synced", "Healthy") and bool(self.commit) and self.is_deployed

    @property
    def shortcoming(self) -> str:
        """Why it is not as promoted."""
        if not self.deployment:
            return texts.NOT_DEPLOYED.format(component=self.name)
        return texts.NOT_AS_WANTED.format(
            component=self.name,
            sync=self.sync or "not compared",
            health=self.health or "of unknown health",
            revision=self.revision or "no commit",
            commit=self.commit or texts.NO_COMMIT,
        )


@dataclass(frozen=True, slots=True)
class Before:
    """The state when a snapshot was ordered. A state that has not changed since is no answer to the order."""

    reported: str
    """What the build service said of the binding's components."""
    deployed: tuple[str, ...] = ()
    """Revisions of the application's components, sorted."""
    unchanged: tuple[str, ...] = ()
    """Components with the same known images in the snapshot before, sorted. Nothing need be written for these."""


@dataclass(frozen=True, slots=True)
class BoundSnapshot:
    """A binding of the application that is in force."""

    name: str
    snapshot: str
    components: tuple[DeployedComponent, ...] = ()
    """All components of its spec."""
    uid: str = ""
    reported: str = ""
    """Identifies what the build service has said of its components."""
    is_outdated: bool = False
    """Whether the build service's report is about an older spec."""
    is_current: bool = False
    """Whether the build service's report is about the newest spec. If neither is True, that is unknown."""
    problem: str = ""
    """Its problem, from its own conditions."""
    before: Before | None = None
    """Recorded by the run that has ordered its snapshot; None: no run has, or the run is gone."""
    images: str = ""
    """Digest of the snapshot's images then; empty: unknown."""


KeyT_contra = TypeVar("KeyT_contra", contravariant=True)
ValueT_co = TypeVar("ValueT_co", covariant=True)
DefaultT = TypeVar("DefaultT")


class Lookup(Protocol[KeyT_contra, ValueT_co]):
    """A mapping whose keys are read one by one: there may be many, and each value may have to be computed."""

    def __getitem__(self, key: KeyT_contra, /) -> ValueT_co: ...
    def __contains__(self, key: object, /) -> bool: ...
    @overload
    def get(self, key: KeyT_contra, /) -> ValueT_co | None: ...
    @overload
    def get(self, key: KeyT_contra, default: DefaultT, /) -> ValueT_co | DefaultT: ...


def _nothing() -> Lookup[Any, Any]:
    return {}


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What exists of what a tenant's promotion runs name."""

    applications: Lookup[str, tuple[str, ...]] = field(default_factory=_nothing)
    """Names of the components of each Application, sorted."""
    crowded_out: Lookup[str, tuple[str, ...]] = field(default_factory=_nothing)
    """Names of its components beyond the quota, sorted."""
    snapshots: Lookup[str, str] = field(default_factory=_nothing)
    """The application of each Snapshot."""
    images: Lookup[str, Collection[str]] = field(default_factory=_nothing)
    """Entries of each Snapshot's images that may be compared, by its name."""
    not_in_force: Lookup[tuple[str, str], str] = field(default_factory=_nothing)
    """Existing resources that do not count, by kind and name, with the reason."""
    expired: Collection[str] = ()
    """Environments whose time is over. They do not count any more."""
    going: Collection[str] = ()
    """Environments that are being deleted. They do not count any more."""
    parents: Mapping[str, str] = field(default_factory=dict)
    """The parent of each Environment that counts; empty if it has none."""
    automated: Collection[str] = ()
    """Environments whose strategy is automated."""
    on_cycles: Collection[str] = ()
    """Environments on a cycle of parents."""
    bindings: Lookup[tuple[str, str], BoundSnapshot] = field(default_factory=_nothing)
    """Bindings by application and environment."""
    idle_bindings: Lookup[tuple[str, str], str] = field(default_factory=_nothing)
    """Names of bindings beyond the quota, by application and environment."""
    shown: Lookup[str, Collection[str]] = field(default_factory=_nothing)
    """Revisions of each application's components, in all environments."""
    bound_components: Lookup[str, Collection[str]] = field(default_factory=_nothing)
    """Names of each application's components in any binding in force."""
    binding_names: Container[str] = ()
    """Names of all known bindings, in force or not."""


@dataclass(frozen=True, slots=True)
class BindingOrder:
    """An order to make a binding. It is no child of the run: what was promoted stays when the run is deleted."""

    name: str
    spec: BindingSpec
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class SnapshotOrder:
    """An order to set ``spec.snapshot`` of a binding."""

    binding: str
    snapshot: str
    uid: str = ""
    """Uid of the binding."""


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress, and what to do to continue."""

    display: str
    is_done: bool = False
    binding: str = ""
    error: str = ""
    """What the user has to fix."""
    shortcoming: str = ""
    """Why it is not done, in more detail than ``display``."""
    order: BindingOrder | SnapshotOrder | None = None
    bound: BoundSnapshot | None = None
    """The existing binding."""
    is_final: bool = False
    """Whether it can never succeed."""


def progress(spec: PromotionRunSpec, environment: str, around: Surroundings) -> Progress:
    """The progress of the promotion of ``spec`` to ``environment``."""
    bound = around.bindings.get((spec.application, environment))
    name = bound.name if bound else _name_to_be(spec.application, environment, around)
    final = _final_error(spec, environment, around)
    if error := final or _error(spec, environment, around, name):
        binding = bound.name if bound else ""
        return Progress(error, binding=binding, error=error, shortcoming=error, is_final=bool(final))
    if bound is None:
        if error := _refusal(BINDING.kind, name, around) or _unbindable(spec, environment, around):
            return Progress(error, error=error, shortcoming=error)
        return Progress(texts.WAITS_FOR_BINDING, binding=name, order=_generated(name, spec, environment, around))
    if bound.snapshot != spec.snapshot:
        order = SnapshotOrder(name, spec.snapshot, bound.uid)
        return Progress(texts.WAITS_FOR_BINDING, binding=name, order=order, bound=bound)
    return replace(_deployed(bound), bound=bound)


def _name_to_be(application: str, environment: str, around: Surroundings) -> str:
    """Name of the binding that will be in force: the existing one, or the one that is made."""
    idle = around.idle_bindings.get((application, environment))
    return idle or generated_name(application, environment, around.binding_names)


def unchanged_components(bound: BoundSnapshot, snapshot: str, around: Surroundings) -> tuple[str, ...]:
    """Components of a binding that are known to have the same images in ``snapshot`` as in its current snapshot."""
    now, then = around.images.get(bound.snapshot, ()), around.images.get(snapshot, ())
    return with_same_image([each.name for each in bound.components], now, then)


def judged_by_branch(found: Progress, before: Before, *, is_over: bool) -> Progress:
    """The same where the build service has named no commit since the snapshot was ordered: the branch alone tells.

    A component was written anew if it was synced to a revision at which none was before: nobody else writes its
    manifests. Each whose image differs has to be. Then the others count that are compared with such a revision; if
    nothing was written at all they do in time.

    Args:
        found: as the commits say that are named.
        before: what there was when the snapshot was ordered.
        is_over: whether engines would have noticed by now if anything had moved.
    """
    bound = found.bound
    if bound is None or found.order is not None or found.error:
        return found
    written = {each.name for each in bound.components if each.applied and each.applied not in before.deployed}

    def is_deployed(component: DeployedComponent) -> bool:
        if component.name not in before.unchanged:
            return component.name in written
        return component.revision not in before.deployed if written else is_over

    components = (
        replace(each, is_deployed=is_deployed(each), commit=each.commit and texts.NEWER_COMMIT)
        for each in bound.components
    )
    return replace(_deployed(replace(bound, components=tuple(components))), bound=bound)


def unanswered(found: Progress) -> Progress:
    """The progress while the build service may not have answered the order yet."""
    shortcoming = found.shortcoming or texts.NOT_ANSWERED
    return replace(found, display=texts.WAITS_FOR_BINDING, is_done=False, shortcoming=shortcoming)


def generated_name(application: str, environment: str, taken: Container[str]) -> str:
    """Name of a binding that is made."""
    name = f"{application}-{environment}-generated-binding".lower()
    if len(name) > LONGEST_NAME:
        return f"generated-environment-binding-{digest(name)}"
    # 'a-b' in 'c' and 'a' in 'b-c' would share it.
    return f"generated-environment-binding-{digest(f'{application}/{environment}')}" if name in taken else name


def _final_error(spec: PromotionRunSpec, environment: str, around: Surroundings) -> str:
    """The error that nothing fixes: the spec of a run does not change, nor does the application of a Snapshot.

    A missing resource is no such error: resources of different kinds arrive in any order.
    """
    if environment in around.expired:
        return texts.ENVIRONMENT_EXPIRED.text(environment=environment)
    if environment in around.going:
        return texts.ENVIRONMENT_GOES.text(environment=environment)
    application = around.snapshots.get(spec.snapshot, spec.application)
    if application != spec.application:
        return texts.SNAPSHOT_OF_ANOTHER.text(snapshot=spec.snapshot, other=application, application=spec.application)
    return ""


def _error(spec: PromotionRunSpec, environment: str, around: Surroundings, binding: str) -> str:
    """The error that may be fixed, or that resources which arrive later may resolve."""
    if environment not in around.parents:
        absent = texts.ENVIRONMENT_NOT_FOUND.text(environment=environment)
        return _refusal(ENVIRONMENT.kind, environment, around) or absent
    if spec.application not in around.applications:
        absent = texts.APPLICATION_NOT_FOUND.text(application=spec.application)
        return _refusal(APPLICATION.kind, spec.application, around) or absent
    if spec.snapshot not in around.snapshots:
        absent = texts.SNAPSHOT_NOT_FOUND.text(snapshot=spec.snapshot, binding=binding)
        return _refusal(SNAPSHOT.kind, spec.snapshot, around) or absent
    return ""


def _refusal(kind: str, name: str, around: Surroundings) -> str:
    """Why an existing resource does not count; empty: it does not exist."""
    why = around.not_in_force.get((kind, name))
    return texts.NOT_IN_FORCE.text(kind=kind, name=name, why=why) if why else ""


def _unbindable(spec: PromotionRunSpec, environment: str, around: Surroundings) -> str:
    """Why no binding can be made; empty: it can."""
    components = around.applications[spec.application]
    if error := _missing_components(spec, around):
        return error
    if len(components) > MAX_COMPONENTS:
        return texts.TOO_MANY_COMPONENTS.text(application=spec.application, count=len(components), most=MAX_COMPONENTS)
    named = [("application", spec.application), ("environment", environment)]
    named += [("component", each) for each in components]
    what, name = next((pair for pair in named if len(pair[1]) > MAX_LABEL), ("", ""))
    return texts.NAME_TOO_LONG.text(what=what, name=name, most=MAX_LABEL) if name else ""


def _missing_components(spec: PromotionRunSpec, around: Surroundings) -> str:
    """The error if a binding would lack components that the snapshot has images of; empty: it would not.

    The entries of a snapshot name no components, so the error names those that other bindings have.
    Components may arrive later, but a component that a binding lacks when it is made is not added to it.
    """
    application, components = spec.application, around.applications[spec.application]
    missing = of_others(around.images.get(spec.snapshot, ()), components)
    if components and not missing:
        return ""
    crowded_out = around.crowded_out.get(application, ())
    if crowded_out := with_image(crowded_out, missing) if components else crowded_out:
        return texts.NOT_IN_FORCE.text(kind=COMPONENT.kind, name=crowded_out[0], why=texts.BEYOND_QUOTA)
    if not components:
        return texts.NO_COMPONENTS.text(application=application)
    named = with_image(around.bound_components.get(application, ()), missing)
    names = f": {listed(named, unnamed=len(missing) - len(named))}" if named else ""
    return texts.MISSING_COMPONENTS.text(
        application=application, count=len(missing), snapshot=spec.snapshot, names=names
    )


def _generated(name: str, spec: PromotionRunSpec, environment: str, around: Surroundings) -> BindingOrder:
    components = [{"name": component} for component in around.applications[spec.application]]
    content = {"application": spec.application, "environment": environment, "snapshot": spec.snapshot}
    labels = {APPLICATION_LABEL: spec.application, ENVIRONMENT_LABEL: environment}
    return BindingOrder(name, BindingSpec.model_validate(content | {"components": components}), labels)


def _deployed(bound: BoundSnapshot) -> Progress:
    """The progress of a binding.

    If it has a problem, it still shows what it had before; without components nothing is deployed.
    """
    if not bound.components:
        return Progress(texts.WAITS_FOR_BINDING, binding=bound.name, shortcoming=bound.problem or texts.NOTHING_BOUND)
    missing = [each for each in bound.components if not each.deployment]
    if missing or bound.is_outdated or bound.problem:
        shortcoming = bound.problem or _shortcomings(missing)
        return Progress(texts.WAITS_FOR_BINDING, binding=bound.name, shortcoming=shortcoming)
    waiting = [each for each in bound.components if not each.is_as_promoted]
    if not waiting:
        return Progress(texts.SUCCEEDED, is_done=True, binding=bound.name)
    display = texts.WAITS_FOR_DEPLOYMENTS.format(deployments=listed(each.deployment for each in waiting))
    return Progress(display, binding=bound.name, shortcoming=_shortcomings(waiting))


def _shortcomings(components: list[DeployedComponent]) -> str:
    ordered = sorted(components, key=lambda each: each.name)
    beyond = len(ordered) - MAX_LISTED
    parts = [each.shortcoming for each in ordered[:MAX_LISTED]] + ([f"and {beyond} more"] if beyond > 0 else [])
    return "; ".join(parts)

"""How far the promotion to one environment is: what its binding deploys, and whether that is what was promoted."""

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
"""Of a binding that was made."""


@dataclass(frozen=True, slots=True)
class DeployedComponent:
    """A component of a binding, as its GitOpsDeployment says it is."""

    name: str
    deployment: str
    """Name of its GitOpsDeployment; empty: there is none yet."""
    sync: str = ""
    health: str = ""
    revision: str = ""
    commit: str = ""
    """The one that brought it to the snapshot, as the build service says; empty: it has not said."""
    is_deployed: bool = False
    """Its revision is that commit, or one of the same branch that was named later, for whichever component."""
    applied: str = ""
    """The revision of its last sync, if that succeeded: its own manifests were other ones before."""

    @property
    def is_as_promoted(self) -> bool:
        """Synced, healthy, and at the commit that the promotion was about or a later one."""
        return (self.sync, self.health) == ("Synced", "Healthy") and bool(self.commit) and self.is_deployed

    @property
    def shortcoming(self) -> str:
        """Why it is not."""
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
    """What there was when a snapshot was ordered: what is still so is no answer to that."""

    reported: str
    """What the build service said of the components of the binding."""
    deployed: tuple[str, ...] = ()
    """The revisions at which components of the application were, sorted."""
    unchanged: tuple[str, ...] = ()
    """Components whose images the snapshot before was known to have, too, sorted: of these nothing need be written."""


@dataclass(frozen=True, slots=True)
class BoundSnapshot:
    """A binding of the application that is in force."""

    name: str
    snapshot: str
    components: tuple[DeployedComponent, ...] = ()
    """All that its spec names."""
    uid: str = ""
    reported: str = ""
    """Tells apart what the build service has said of its components."""
    is_outdated: bool = False
    """The build service says that this is of a spec before the newest one."""
    is_current: bool = False
    """It says that this is of the newest spec. Neither: it does not say."""
    problem: str = ""
    """What is wrong with it, as its own conditions say it."""
    before: Before | None = None
    """Of the run that has brought it this snapshot; None: none has, or it is gone."""
    images: str = ""
    """Digest of those that the snapshot had then; empty: nobody knows."""


KeyT_contra = TypeVar("KeyT_contra", contravariant=True)
ValueT_co = TypeVar("ValueT_co", covariant=True)
DefaultT = TypeVar("DefaultT")


class Lookup(Protocol[KeyT_contra, ValueT_co]):
    """A mapping of which single keys are asked for, never all: there may be many, and each may have to be made."""

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
    """What a tenant has of what its promotion runs name."""

    applications: Lookup[str, tuple[str, ...]] = field(default_factory=_nothing)
    """Names of the components of each Application, sorted."""
    crowded_out: Lookup[str, tuple[str, ...]] = field(default_factory=_nothing)
    """Likewise of those that are beyond the quota."""
    snapshots: Lookup[str, str] = field(default_factory=_nothing)
    """The application of each Snapshot."""
    images: Lookup[str, Collection[str]] = field(default_factory=_nothing)
    """Entries for the images of each Snapshot that may be compared, by its name."""
    not_in_force: Lookup[tuple[str, str], str] = field(default_factory=_nothing)
    """Resources that exist and do not count, by kind and name, and why."""
    expired: Collection[str] = ()
    """Environments that are over; they count no more."""
    going: Collection[str] = ()
    """Those that are being deleted, likewise."""
    parents: Mapping[str, str] = field(default_factory=dict)
    """The parent of each Environment that counts; empty if it has none."""
    automated: Collection[str] = ()
    """Environments whose strategy is automated."""
    on_cycles: Collection[str] = ()
    """Environments that are their own ancestors."""
    bindings: Lookup[tuple[str, str], BoundSnapshot] = field(default_factory=_nothing)
    """By application and environment."""
    idle_bindings: Lookup[tuple[str, str], str] = field(default_factory=_nothing)
    """Likewise the names of those that are beyond the quota."""
    shown: Lookup[str, Collection[str]] = field(default_factory=_nothing)
    """The revisions at which components of each application are, in all environments."""
    bound_components: Lookup[str, Collection[str]] = field(default_factory=_nothing)
    """Names of the components of each application that any binding has which is in force."""
    binding_names: Container[str] = ()
    """Of all bindings of which it is known what they bind, in force or not."""


@dataclass(frozen=True, slots=True)
class BindingOrder:
    """The order to make a binding. No child of the run: what was promoted stays when that is deleted."""

    name: str
    spec: BindingSpec
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class SnapshotOrder:
    """The order to set ``spec.snapshot`` of a binding."""

    binding: str
    snapshot: str
    uid: str = ""
    """Of the binding."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far it is, and what has to be done for it to go on."""

    display: str
    is_done: bool = False
    binding: str = ""
    error: str = ""
    """What the user has to mend."""
    shortcoming: str = ""
    """Why it is not done, in more words than ``display``."""
    order: BindingOrder | SnapshotOrder | None = None
    bound: BoundSnapshot | None = None
    """The binding that there is."""
    is_final: bool = False
    """It never will be done, whatever else is told."""


def progress(spec: PromotionRunSpec, environment: str, around: Surroundings) -> Progress:
    """Of the promotion of ``spec`` to ``environment``."""
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
    """Of the binding that comes into force: the one that there is, or that is made."""
    idle = around.idle_bindings.get((application, environment))
    return idle or generated_name(application, environment, around.binding_names)


def unchanged_components(bound: BoundSnapshot, snapshot: str, around: Surroundings) -> tuple[str, ...]:
    """Those of a binding for which ``snapshot`` is known to have the same images as the one that it has."""
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
    """The same while the build service may not have answered to the snapshot yet."""
    shortcoming = found.shortcoming or texts.NOT_ANSWERED
    return replace(found, display=texts.WAITS_FOR_BINDING, is_done=False, shortcoming=shortcoming)


def generated_name(application: str, environment: str, taken: Container[str]) -> str:
    """Of the binding that is made if there is none."""
    name = f"{application}-{environment}-generated-binding".lower()
    if len(name) > LONGEST_NAME:
        return f"generated-environment-binding-{digest(name)}"
    # 'a-b' in 'c' and 'a' in 'b-c' would share it.
    return f"generated-environment-binding-{digest(f'{application}/{environment}')}" if name in taken else name


def _final_error(spec: PromotionRunSpec, environment: str, around: Surroundings) -> str:
    """What nothing that is told later mends: neither the spec of a run changes, nor the application of a Snapshot.

    What was not told of is no such thing: resources of different kinds are told of in any order.
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
    """What may be mended, or told of later."""
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
    """Why a resource that exists does not count; empty: there is none."""
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
    """Which components a binding would lack, of those that the snapshot has images of; empty: none.

    The entries of a snapshot name none of them, so those are named that other bindings have.
    They may be told of later, and what a binding lacks when it is made is not added to it.
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
    """What a binding with a problem shows is what it had before; of one without components nothing is deployed."""
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

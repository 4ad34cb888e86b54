"""How far the promotion to one environment is: what its binding deploys, and whether that is what was promoted."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from services.common.json_values import digest
from services.kinds.promotion_run import catalogue as texts
from services.kinds.promotion_run.model import PromotionRunSpec
from services.kinds.shared.reconciled import MAX_LISTED, listed
from services.kinds.snapshot_environment_binding.model import BindingSpec

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
    shown: frozenset[str] = frozenset()
    """The revisions at which components of the application are, in all environments."""
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


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a tenant has of what its promotion runs name."""

    applications: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Names of the components of each Application, sorted."""
    snapshots: Mapping[str, str] = field(default_factory=dict)
    """The application of each Snapshot."""
    images: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """The image of each component of a Snapshot, by the name of that."""
    beyond_quota: Collection[str] = ()
    """Snapshots that do not count."""
    expired: Collection[str] = ()
    """Environments that are over; they count no more."""
    parents: Mapping[str, str] = field(default_factory=dict)
    """The parent of each Environment; empty if it has none."""
    automated: Collection[str] = ()
    """Environments whose strategy is automated."""
    on_cycles: Collection[str] = ()
    """Environments that are their own ancestors."""
    bindings: Mapping[tuple[str, str], BoundSnapshot] = field(default_factory=dict)
    """By application and environment."""
    binding_names: Collection[str] = ()
    """Of all bindings, in force or not."""


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


def progress(spec: PromotionRunSpec, environment: str, around: Surroundings) -> Progress:
    """Of the promotion of ``spec`` to ``environment``."""
    bound = around.bindings.get((spec.application, environment))
    name = bound.name if bound else generated_name(spec.application, environment, around.binding_names)
    if error := _error(spec, environment, around, name):
        return Progress(error, binding=bound.name if bound else "", error=error, shortcoming=error)
    if bound is None:
        return Progress(texts.WAITS_FOR_BINDING, binding=name, order=_generated(name, spec, environment, around))
    if bound.snapshot != spec.snapshot:
        order = SnapshotOrder(name, spec.snapshot, bound.uid)
        return Progress(texts.WAITS_FOR_BINDING, binding=name, order=order, bound=bound)
    return replace(_deployed(bound), bound=bound)


def unchanged_components(bound: BoundSnapshot, snapshot: str, around: Surroundings) -> tuple[str, ...]:
    """Those of a binding for which ``snapshot`` is known to have the same images as the one that it has."""
    now, then = around.images.get(bound.snapshot), around.images.get(snapshot)
    if now is None or then is None:
        return ()
    return tuple(sorted(each.name for each in bound.components if now.get(each.name) == then.get(each.name)))


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


def generated_name(application: str, environment: str, taken: Collection[str]) -> str:
    """Of the binding that is made if there is none."""
    name = f"{application}-{environment}-generated-binding".lower()
    if len(name) > LONGEST_NAME:
        return f"generated-environment-binding-{digest(name)}"
    # 'a-b' in 'c' and 'a' in 'b-c' would share it.
    return f"generated-environment-binding-{digest(f'{application}/{environment}')}" if name in taken else name


def _error(spec: PromotionRunSpec, environment: str, around: Surroundings, binding: str) -> str:
    if environment in around.expired:
        return texts.ENVIRONMENT_EXPIRED.text(environment=environment)
    if environment not in around.parents:
        return texts.ENVIRONMENT_NOT_FOUND.text(environment=environment)
    if spec.application not in around.applications:
        return texts.APPLICATION_NOT_FOUND.text(application=spec.application)
    return _snapshot_error(spec, around, binding)


def _snapshot_error(spec: PromotionRunSpec, around: Surroundings, binding: str) -> str:
    if spec.snapshot in around.beyond_quota:
        return texts.SNAPSHOT_BEYOND_QUOTA.text(snapshot=spec.snapshot)
    application = around.snapshots.get(spec.snapshot)
    if application is None:
        return texts.SNAPSHOT_NOT_FOUND.text(snapshot=spec.snapshot, binding=binding)
    if application != spec.application:
        return texts.SNAPSHOT_OF_ANOTHER.text(snapshot=spec.snapshot, other=application, application=spec.application)
    return ""


def _generated(name: str, spec: PromotionRunSpec, environment: str, around: Surroundings) -> BindingOrder:
    components = [{"name": component} for component in around.applications[spec.application]]
    content = {"application": spec.application, "environment": environment, "snapshot": spec.snapshot}
    labels = {APPLICATION_LABEL: spec.application, ENVIRONMENT_LABEL: environment}
    return BindingOrder(name, BindingSpec.model_validate(content | {"components": components}), labels)


def _deployed(bound: BoundSnapshot) -> Progress:
    """What a binding with a problem shows is what it had before."""
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

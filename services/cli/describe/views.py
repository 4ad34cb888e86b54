"""What is shown of an application: values, the same for people and for programs."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


class View(BaseModel):
    """Something that is shown: to programs under the names of its fields, in camelCase."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, frozen=True)


class ComponentView(View):
    """A component in one environment. Empty texts: no status has a value yet."""

    name: str
    deployment: str = ""
    """Name of its GitOpsDeployment."""
    sync: str = ""
    health: str = ""
    commit: str = ""
    """The one that was compared with."""
    wanted_commit: str = ""
    """The one that brought it to the snapshot, as the build service says."""


class BindingView(View):
    """What is deployed of the application in one environment."""

    name: str
    snapshot: str = ""
    deployed: str = ""
    """How many of its components are."""
    problem: str = ""
    components: tuple[ComponentView, ...] = ()


class ClaimView(View):
    """The claim that says where an environment is."""

    name: str
    phase: str = ""
    target: str = ""
    problem: str = ""


class EnvironmentView(View):
    """One environment; one without a binding has nothing of the application."""

    name: str
    strategy: str = ""
    parent: str = ""
    problems: tuple[str, ...] = ()
    claim: ClaimView | None = None
    bindings: tuple[BindingView, ...] = ()
    """Of the application. More than one is a mistake; the first is in force."""


class StepView(View):
    """How the promotion to one environment goes."""

    environment: str
    status: str
    display: str = ""


class PromotionView(View):
    """A PromotionRun that is not over."""

    name: str
    snapshot: str = ""
    environment: str = ""
    """The one that it is to, or begins with."""
    automated: bool = False
    state: str = ""
    behind: str = ""
    """Name of the run that it waits for."""
    problem: str = ""
    steps: tuple[StepView, ...] = ()


class ApplicationView(View):
    """All that is shown of an application."""

    name: str
    namespace: str
    environments: tuple[EnvironmentView, ...] = ()
    """Those of the namespace as promotions reach them, then those that they do not reach."""
    promotions: tuple[PromotionView, ...] = ()
    """The oldest first."""

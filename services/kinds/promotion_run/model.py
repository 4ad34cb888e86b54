"""PromotionRun: brings a snapshot to an environment, or from environment to environment."""

from __future__ import annotations

from typing import Literal

from pydantic import ConfigDict, Field
from pydantic.alias_generators import to_camel

from services.common.api_resource import ApiResource
from services.kinds.shared.api_group import APPSTUDIO_GROUP, VERSION
from services.kinds.shared.api_model import CONDITIONS, ApiModel, Condition, cel, rule
from services.kinds.shared.text import MAX_LABEL, MAX_NAME

PROMOTION_RUN = ApiResource(APPSTUDIO_GROUP, VERSION, "PromotionRun", "promotionruns")

SPEC_IMMUTABLE = "spec cannot be updated to another one; create another PromotionRun"
ONE_PROMOTION = (
    "spec must have exactly one of manualPromotion.targetEnvironment and automatedPromotion.initialEnvironment; set "
    "one, remove the other"
)
_TARGET = "has(self.manualPromotion) && self.manualPromotion.targetEnvironment != ''"
_INITIAL = "has(self.automatedPromotion) && self.automatedPromotion.initialEnvironment != ''"


class ManualPromotion(ApiModel):
    """To one environment."""

    target_environment: str = Field(
        max_length=MAX_LABEL, description="The Environment that the snapshot is brought to."
    )


class AutomatedPromotion(ApiModel):
    """To one environment, and on to its children."""

    initial_environment: str = Field(
        max_length=MAX_LABEL,
        description="The first Environment. Where it has succeeded its children follow whose strategy is automated.",
    )


class PromotionRunSpec(ApiModel):
    """What is promoted. It does not change: another promotion is another resource."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        # That the whole is unchanged lets the other rule stand here, too: no update can be refused for what was stored.
        json_schema_extra=cel(
            rule("self == oldSelf", SPEC_IMMUTABLE), rule(f"({_TARGET}) != ({_INITIAL})", ONE_PROMOTION)
        ),
    )

    snapshot: str = Field(max_length=MAX_NAME, description="Name of a Snapshot of the same namespace.")
    application: str = Field(max_length=MAX_LABEL, description="Name of an Application of the same namespace.")
    manual_promotion: ManualPromotion | None = None
    automated_promotion: AutomatedPromotion | None = None

    @property
    def target_environment(self) -> str:
        """Of a manual promotion; empty if it is none."""
        return self.manual_promotion.target_environment if self.manual_promotion else ""

    @property
    def initial_environment(self) -> str:
        """Of an automated promotion; empty if it is none."""
        return self.automated_promotion.initial_environment if self.automated_promotion else ""


class EnvironmentStep(ApiModel):
    """How the promotion to one environment goes."""

    step: int = Field(description="From 1.")
    environment_name: str = Field(description="Name of the Environment.")
    status: Literal["Success", "In Progress", "Failed"] = Field(
        description="In Progress until it has succeeded, or has Failed: it never can succeed, or ten minutes are over."
    )
    display_status: str = Field(
        default="", description="For people: what it waits for, or which component has failed, and why."
    )


class PromotionRunStatus(ApiModel):
    """How far it is."""

    state: Literal["Waiting", "Active", "Complete"] | None = Field(
        default=None, description="Waiting, Active or Complete."
    )
    completion_result: Literal["Success", "Failure"] | None = Field(
        default=None, description="Success or Failure, once it is Complete."
    )
    environment_status: list[EnvironmentStep] | None = Field(
        default=None, description="The environments, in the order in which they were promoted to."
    )
    active_bindings: list[str] | None = Field(
        default=None, description="Names of the SnapshotEnvironmentBindings that it waits for."
    )
    promotion_start_time: str | None = Field(
        default=None, json_schema_extra={"format": "date-time"}, description="When it became Active."
    )
    conditions: list[Condition] | None = Field(default=None, description=CONDITIONS)

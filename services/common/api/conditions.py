"""Status conditions as this API has always written them."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from services.common.api.model import ApiModel

CONDITIONS = "What is right and wrong; see below. Once written, a condition stays and changes its status."


class Condition(ApiModel):
    """One condition of a resource's status."""

    type: str = Field(max_length=316, description="What the condition is about.")
    status: Literal["True", "False", "Unknown"] = Field(description="Whether it holds.")
    reason: str = Field(default="", max_length=1024, description="One word for why.")
    message: str = Field(default="", max_length=32768, description="For people.")
    last_transition_time: str | None = Field(
        default=None,
        json_schema_extra={"format": "date-time"},
        description="When status, reason or message last changed.",
    )
    last_probe_time: str | None = Field(
        default=None, json_schema_extra={"format": "date-time"}, description="When the condition was last written."
    )

"""Snapshot: the images of an application's components that were tested together."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import ConfigDict, Field, WithJsonSchema
from pydantic.alias_generators import to_camel

from services.common.api_resource import ApiResource
from services.kinds.shared.api_group import APPSTUDIO_GROUP, VERSION
from services.kinds.shared.api_model import ApiModel, Condition, ForeignCondition, cel
from services.kinds.shared.immutable import unchanged, unchanged_list
from services.kinds.shared.text import (
    MAX_COMPONENTS,
    MAX_DISPLAY_NAME,
    MAX_DISPLAY_TEXT,
    MAX_IMAGE,
    MAX_LABEL,
    MAX_PATH,
    MAX_REVISION,
    MAX_URL,
)

SNAPSHOT = ApiResource(APPSTUDIO_GROUP, VERSION, "Snapshot", "snapshots")

AnyValue = Annotated[Any, WithJsonSchema({"x-kubernetes-preserve-unknown-fields": True})]


class GitSource(ApiModel):
    """The commit that an image was built from."""

    url: str = Field(max_length=MAX_URL, description="Git repository.")
    revision: str | None = Field(default=None, max_length=MAX_REVISION, description="Branch, tag or commit.")
    context: str | None = Field(default=None, max_length=MAX_PATH, description="Folder of the component in it.")
    devfile_url: str | None = Field(default=None, max_length=MAX_URL, description="Where its devfile is.")
    dockerfile_url: str | None = Field(default=None, max_length=MAX_URL, description="Where its Dockerfile is.")


class ComponentSource(ApiModel):
    """What an image was built from."""

    git: GitSource | None = None


class SnapshotComponent(ApiModel):
    """One component, as it was tested."""

    name: str = Field(max_length=MAX_LABEL, description="Name of the Component.")
    container_image: str = Field(max_length=MAX_IMAGE, description="Its image, by digest.")
    source: ComponentSource | None = Field(default=None, description="For people; nothing follows from it.")


class SnapshotArtifacts(ApiModel):
    """What tools keep with a snapshot."""

    unstable_fields: AnyValue = Field(default=None, description="Any JSON value; nothing follows from it.")


class SnapshotSpec(ApiModel):
    """Which images. They do not change: other images are another snapshot."""

    model_config = ConfigDict(
        alias_generator=to_camel, json_schema_extra=cel(unchanged_list("components", SNAPSHOT.kind))
    )

    application: str = Field(
        max_length=MAX_LABEL,
        description="Name of the Application whose components these are.",
        json_schema_extra=cel(unchanged("application", SNAPSHOT.kind)),
    )
    display_name: str | None = Field(default=None, max_length=MAX_DISPLAY_NAME, description="What people call it.")
    display_description: str | None = Field(
        default=None, max_length=MAX_DISPLAY_TEXT, description="What people say of it."
    )
    components: list[SnapshotComponent] | None = Field(
        default=None, max_length=MAX_COMPONENTS, description="The components, each with its image."
    )
    artifacts: SnapshotArtifacts | None = None


class KnownSnapshot(ApiModel):
    """What rules know of its spec: the projection."""

    application: str = Field(max_length=MAX_LABEL)
    images: tuple[str, ...] = ()
    """Entries that ``images.py`` compares. None: the watcher of the release before has sent it."""


class SnapshotStatus(ApiModel):
    """What other services say of it, and whether there is room for it."""

    conditions: list[ForeignCondition] | None = Field(default=None, description="Written by the services that test it.")
    quota_conditions: list[Condition] | None = Field(
        default=None, description="Whether the namespace has room for it; left out if it always had."
    )

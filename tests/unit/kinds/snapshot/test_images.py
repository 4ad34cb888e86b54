"""Which components have one image in two Snapshots, as far as what leaves the cluster tells."""

from __future__ import annotations

from typing import Any

import pytest

from services.kinds.snapshot.images import image_entries, of_others, with_image, with_same_image

WEB, API = "registry.example.com/web@sha256:0", "registry.example.com/api@sha256:0"


def spec(*components: tuple[str, str]) -> dict[str, Any]:
    return {"components": [{"name": name, "containerImage": image} for name, image in components]}


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        pytest.param(spec(("api", API), ("web", WEB)), spec(("web", WEB), ("api", API)), ("api", "web"), id="both"),
        pytest.param(spec(("api", API), ("web", WEB)), spec(("web", WEB), ("api", WEB)), ("web",), id="one-differs"),
        pytest.param(spec(("web", WEB)), spec(("api", WEB)), (), id="of-another-component"),
        pytest.param(spec(("web", WEB)), spec(), (), id="one-has-none"),
        pytest.param(spec(), spec(), (), id="neither-has-any"),
        pytest.param({}, {"components": "web"}, (), id="of-another-shape"),
        pytest.param(spec(("web", WEB), ("web", API)), spec(("web", WEB), ("web", API)), ("web",), id="twice"),
        pytest.param(spec(("web", WEB), ("web", API)), spec(("web", API), ("web", WEB)), (), id="twice-otherwise"),
    ],
)
def test_components_when_two_snapshots_are_compared_then_those_are_named_that_both_have_the_image_of(
    first: dict[str, Any], second: dict[str, Any], same: tuple[str, ...]
) -> None:
    assert with_same_image(("web", "api"), image_entries(first), image_entries(second)) == same


def test_component_when_two_have_one_key_then_neither_is_known_to_have_the_same_image() -> None:
    (entry,) = image_entries(spec(("web", WEB)))
    both = [entry, f"{entry[:4]}--------"]
    assert with_same_image(["web"], both, both) == ()
    assert with_same_image(["web"], [entry], [entry]) == ("web",)


def test_images_when_components_are_given_then_it_is_known_which_are_theirs() -> None:
    api, web = (image_entries(spec((name, WEB))) for name in ("api", "web"))
    assert of_others([*api, *web], ["web", "cart"]) == tuple(api)
    assert with_image(["web", "cart", "api"], [*api, *web]) == ("api", "web")
    assert with_image(["web", "cart"], api) == ()

"""What the tutorial has its reader write does what the tutorial says.

That the models know every field is tested with all pages' examples (test_reference.py).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import pytest
import yaml

from devstack.paths import USER_DOCS
from services.common.api_resource import ApiResource
from services.kinds.application.kind import APPLICATION
from services.kinds.component.model import COMPONENT, ComponentSpec
from services.kinds.deployment_target_claim.model import DEPLOYMENT_TARGET_CLAIM
from services.kinds.environment.model import AUTOMATED, ENVIRONMENT, EnvironmentSpec
from services.kinds.promotion_run.catalogue import WAITS_FOR_BINDING, WAITS_FOR_DEPLOYMENTS, WAITS_FOR_RUN
from services.kinds.promotion_run.model import PROMOTION_RUN, PromotionRunSpec
from services.kinds.promotion_run.progress import BoundSnapshot, DeployedComponent, Surroundings, generated_name
from services.kinds.promotion_run.rules import TIME_FOR_A_STEP, Promotion, advance
from services.kinds.registry import REGISTRY
from services.kinds.shared.api_model import ApiModel
from services.kinds.snapshot.model import SNAPSHOT, SnapshotSpec
from services.kinds.snapshot.promotion import run_name
from services.kinds.snapshot_environment_binding.model import BINDING, BindingSpec

ModelT = TypeVar("ModelT", bound=ApiModel)

PAGE = (USER_DOCS / "tutorial.md").read_text()
YAML = re.compile(r"^```yaml\n(.*?)^```", re.DOTALL | re.MULTILINE)
SHOWN = re.compile(r"^\$ kubectl get (\w+)\n(NAME.*)\n((?:[a-z].*\n)+)", re.MULTILINE)
DOCUMENTS = [document for block in YAML.findall(PAGE) for document in yaml.safe_load_all(block)]
COMMIT = "4be1a7e0c2d95b83f6170d4c8e2a9b5f3d6c1e07"
NOW = datetime(2026, 11, 25, 12, tzinfo=UTC)


def names(resource: ApiResource) -> list[str]:
    return [each["metadata"]["name"] for each in DOCUMENTS if each["kind"] == resource.kind]


def specs(resource: ApiResource, model: type[ModelT]) -> dict[str, ModelT]:
    found = [each for each in DOCUMENTS if each["kind"] == resource.kind]
    return {each["metadata"]["name"]: model.model_validate(each["spec"]) for each in found}


ENVIRONMENTS = specs(ENVIRONMENT, EnvironmentSpec)
RUNS = specs(PROMOTION_RUN, PromotionRunSpec)
SNAPSHOTS = specs(SNAPSHOT, SnapshotSpec)
COMPONENTS = tuple(sorted(each.component_name for each in specs(COMPONENT, ComponentSpec).values()))


def around(snapshot: str, healths: Mapping[str, str]) -> Surroundings:
    """Everything that the page makes, with the snapshot everywhere; ``healths``: of cart, where it is not well."""
    return Surroundings(
        applications={"shop": COMPONENTS},
        snapshots={name: spec.application for name, spec in SNAPSHOTS.items()},
        parents={name: spec.parent_environment or "" for name, spec in ENVIRONMENTS.items()},
        automated={name for name, spec in ENVIRONMENTS.items() if spec.deployment_strategy == AUTOMATED},
        bindings={
            ("shop", name): BoundSnapshot(
                f"shop-{name}", snapshot, (cart(healths.get(name, "Healthy")),), is_current=True
            )
            for name in ENVIRONMENTS
        },
    )


def cart(health: str) -> DeployedComponent:
    return DeployedComponent("cart", "d", "Synced", health, COMMIT, COMMIT, is_deployed=True)


def course(run: str, **healths: str) -> Promotion:
    """What becomes of a run of the page, until its time is over."""
    spec, promotion = RUNS[run], Promotion()
    surroundings = around(spec.snapshot, healths)
    for now in (NOW, NOW + TIME_FOR_A_STEP):
        promotion = advance(spec, promotion, surroundings, now).promotion
    return promotion


def test_names_when_a_resource_of_the_page_refers_to_another_then_the_page_has_that_one() -> None:
    environments, claims = set(ENVIRONMENTS), names(DEPLOYMENT_TARGET_CLAIM)
    assert {each.parent_environment for each in ENVIRONMENTS.values()} <= {None, *environments}
    assert {each.claim_name for each in ENVIRONMENTS.values()} == {"", *claims}
    assert {each.credentials.cluster_credentials_secret for each in ENVIRONMENTS.values() if each.credentials} == {
        each["metadata"]["name"] for each in DOCUMENTS if each["kind"] == "Secret"
    }
    assert {each.application for each in (*SNAPSHOTS.values(), *RUNS.values())} == set(names(APPLICATION))
    assert {each.snapshot for each in RUNS.values()} <= set(SNAPSHOTS)
    for spec in (*SNAPSHOTS.values(), *specs(BINDING, BindingSpec).values()):
        assert tuple(sorted(each.name for each in spec.components or ())) == COMPONENTS


@pytest.mark.parametrize(
    ("run", "wanted"),
    [
        ("shop-1", ["development", "staging"]),
        ("shop-1-to-production", ["production"]),
        ("shop-2", ["development", "staging"]),
        ("staging-back-to-shop-1", ["staging"]),
    ],
)
def test_run_when_everything_becomes_healthy_then_it_goes_where_the_page_says(run: str, wanted: list[str]) -> None:
    promotion = course(run)
    assert [step.environment for step in promotion.steps] == wanted
    assert (promotion.state, promotion.result) == ("Complete", "Success")
    assert sorted(RUNS) == ["shop-1", "shop-1-to-production", "shop-2", "staging-back-to-shop-1"]


def test_run_when_a_component_stays_degraded_in_staging_then_it_fails_in_the_words_of_the_page() -> None:
    promotion = course("shop-2", staging="Degraded")
    assert (promotion.state, promotion.result) == ("Complete", "Failure")
    assert [step.status for step in promotion.steps] == ["Success", "Failed"]
    assert f"   {promotion.steps[-1].display}   " in PAGE
    assert "ten minutes" in PAGE
    assert timedelta(minutes=10) == TIME_FOR_A_STEP


def test_run_when_it_waits_then_the_page_has_its_words() -> None:
    for words in (
        WAITS_FOR_RUN.format(run="shop-1-to-production"),
        WAITS_FOR_BINDING,
        WAITS_FOR_DEPLOYMENTS.format(deployments="…"),
    ):
        assert f"`{words}`" in PAGE


def test_binding_when_a_run_makes_it_then_it_has_the_name_of_the_page() -> None:
    for environment in ("development", "staging"):
        assert f"\n{generated_name('shop', environment, ())} " in PAGE


def test_run_when_a_new_snapshot_begins_it_then_it_has_the_name_of_the_page() -> None:
    assert f"\n{run_name('shop-2', 'development')} " in PAGE


def shown_tables() -> list[Any]:
    return [pytest.param(*found, id=f"{found[0]}-{n}") for n, found in enumerate(SHOWN.findall(PAGE))]


@pytest.mark.parametrize(("plural", "heading", "rows"), shown_tables())
def test_table_when_kubectl_shows_one_then_its_columns_are_those_of_the_kind(
    plural: str, heading: str, rows: str
) -> None:
    (kind,) = [kind for kind in REGISTRY.defined if kind.plural == plural]
    narrow = [column.heading.upper() for column in kind.columns if not column.is_wide]
    assert re.split(r"\s{3,}", heading) == ["NAME", *narrow, "AGE"]
    # As kubectl aligns them: each row has its values under the headings.
    starts = [found.start() for found in re.finditer(r"(?:^|(?<=   ))\S", heading)]
    assert all(row[start - 1] == " " for row in rows.splitlines() for start in starts[1:])


def test_table_when_the_page_has_one_then_it_was_found() -> None:
    assert len(shown_tables()) == PAGE.count("$ kubectl get ")

"""The pages for operators name every setting and every metric, as the code has them, and show no secret."""

from __future__ import annotations

import re

import pytest
from pydantic import SecretStr, create_model
from pydantic_settings import BaseSettings

from devstack.generate import settings_and_metrics as generate_operations
from devstack.generate.settings_and_metrics import SETTINGS, metrics_page, settings_page
from devstack.paths import DOCS, ROOT
from services.planner.domain.fleet.moves.moves import NUMBERS

SERVICES = sorted(path.parent.name for path in (ROOT / "services").glob("*/settings.py"))
DECLARED = [(settings, name) for settings in SETTINGS.values() for name in settings.model_fields]
CELLS = re.compile(r"^\| `(?P<name>[\w]+)` \|(?P<rest>.*)\|$", re.MULTILINE)
METRICS = "services/common/telemetry/metrics.py"
MAKEFILE = (ROOT / "Makefile").read_text()


def by_name(case: object) -> str:
    return case if isinstance(case, str) else getattr(case, "__name__", "")


@pytest.mark.parametrize(("page", "text"), [("settings.md", settings_page()), ("metrics.md", metrics_page())])
def test_page_when_compared_with_the_code_then_it_is_up_to_date_and_ci_checks_it(page: str, text: str) -> None:
    assert (DOCS / page).read_text() == text, "run 'make generate'"
    assert f"docs/{page}" in re.findall(r"^GENERATED := .*$", MAKEFILE, re.MULTILINE)[0]


def test_settings_when_a_service_has_some_then_the_page_shows_them() -> None:
    shown = {settings.__module__ for settings in SETTINGS.values()}
    others = {"services.common.settings", "services.cli.installation.connect", "services.agent.provisioning.settings"}
    assert shown == {f"services.{name}.settings" for name in SERVICES} | others


@pytest.mark.parametrize(("settings", "name"), DECLARED, ids=by_name)
def test_setting_when_it_exists_then_the_page_says_what_it_is_for(settings: type[BaseSettings], name: str) -> None:
    rows = [row["rest"] for row in CELLS.finditer((DOCS / "settings.md").read_text()) if row["name"] == name.upper()]
    described = settings.model_fields[name].description
    assert described
    assert [row for row in rows if row.endswith(f"| {described} ")]


@pytest.mark.parametrize("name", ["KAFKA_CA", "ENGINE_CLUSTER", "OBSERVATIONS_TOPIC", "CONNECT_URL"])
def test_setting_when_several_have_it_then_the_page_shows_it_once(name: str) -> None:
    assert [row["name"] for row in CELLS.finditer(settings_page())].count(name) == 1


def test_secret_when_it_has_a_default_then_the_page_does_not_show_it(monkeypatch: pytest.MonkeyPatch) -> None:
    planted = create_model("Planted", __base__=BaseSettings, password=(SecretStr, SecretStr("planted")), port=(int, 17))
    monkeypatch.setattr(generate_operations, "SETTINGS", {"planted": planted})
    page = settings_page()
    assert "| `PASSWORD` |  |" in page
    assert "| `PORT` | `17` |" in page
    assert "| `planted` |" not in page


def test_metric_when_a_service_can_serve_it_then_the_page_names_it_with_its_labels() -> None:
    declared = set(re.findall(r"\"(gitops_[a-z_]+)\"", (ROOT / METRICS).read_text()))
    rows = {row["name"]: row["rest"] for row in CELLS.finditer((DOCS / "metrics.md").read_text())}
    assert rows.keys() == declared
    assert rows["gitops_batch_seconds"].startswith(" histogram | `service`, `step` | ")


def test_metrics_when_declared_then_nowhere_but_in_the_module_that_the_page_is_made_of() -> None:
    declaring = re.compile(r"\b(Counter|Gauge|Histogram|Summary|Info|Enum)\(\s*\"")
    files = [path for path in (ROOT / "services").rglob("*.py") if declaring.search(path.read_text())]
    assert [str(path.relative_to(ROOT)) for path in files] == [METRICS]


def test_move_when_operators_see_the_number_of_its_step_then_the_page_lists_it() -> None:
    _, _, section = (DOCS / "operations" / "moves.md").read_text().partition("\n## Moving a tenant\n")
    listed = re.findall(r"^\| (\d) \| `(\w+)`", section.partition("\n## ")[0], re.MULTILINE)
    assert {step: int(number) for number, step in listed} == NUMBERS


QUERY = re.compile(r"^```promql\n(.*?)^```", re.MULTILINE | re.DOTALL)
SCRAPED = {"pod", "le"}
"""Labels that no metric of ours declares: a pod's is of whoever scrapes it, the other of every histogram's buckets."""


@pytest.mark.parametrize(
    ("page", "query"),
    [
        (page.name, line)
        for page in sorted((DOCS / "operations").glob("*.md"))
        for block in QUERY.findall(page.read_text())
        for line in block.splitlines()
        if not line.startswith("#")
    ],
)
def test_query_when_a_page_has_prometheus_asked_then_its_metrics_are_there_with_these_labels(
    page: str, query: str
) -> None:
    rows = {row["name"]: row["rest"] for row in CELLS.finditer((DOCS / "metrics.md").read_text())}
    for name, matchers in re.findall(r"(gitops_\w+)(?:\{(.*?)\})?", query):
        declared = rows[re.sub(r"_bucket$", "", name)]
        assert ("histogram" in declared) == name.endswith("_bucket"), page
        assert {f"`{label}`" for label in re.findall(r"(\w+)=", matchers)} <= set(re.findall(r"`\w+`", declared)), page
    grouped = {label for labels in re.findall(r"by \(([\w, ]+)\)", query) for label in labels.split(", ")}
    assert grouped <= SCRAPED, page

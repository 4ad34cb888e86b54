"""``gitopsctl generate``: writes what is derived from the models. CI runs it and fails on a difference."""

from __future__ import annotations

import typer
import yaml

from services.cli.generate_operations import metrics_page, settings_page
from services.cli.reference import page
from services.common.api.crd import custom_resource_definition
from services.common.api.kinds import KINDS
from services.common.paths import CRDS, DOCS, USER_DOCS

app = typer.Typer(help="Write generated files.", no_args_is_help=True)

HEADER = "# Generated from services/common/api by `make generate`; do not edit.\n"
EXAMPLES = USER_DOCS / "examples"


@app.command()
def crds() -> None:
    """Write the CRDs into k8s/crds/, one file a kind."""
    CRDS.mkdir(parents=True, exist_ok=True)
    for kind in KINDS:
        manifest = yaml.safe_dump(custom_resource_definition(kind), sort_keys=False, width=120)
        (CRDS / f"{kind.plural}.yaml").write_text(HEADER + manifest)


@app.command()
def docs() -> None:
    """Write the reference for users into docs/users/, one page a kind with the example of docs/users/examples/.

    And for operators docs/settings.md and docs/metrics.md.
    """
    (DOCS / "settings.md").write_text(settings_page())
    (DOCS / "metrics.md").write_text(metrics_page())
    for kind in KINDS:
        example = (EXAMPLES / f"{kind.page}.yaml").read_text()
        (USER_DOCS / f"{kind.page}.md").write_text(page(kind, example))

"""``gitopsctl generate``: writes what is derived from the models. CI runs it and fails on a difference."""

from __future__ import annotations

import typer
import yaml

from services.common.api.crd import KINDS, custom_resource_definition
from services.common.paths import CRDS

app = typer.Typer(help="Write generated files.", no_args_is_help=True)

HEADER = "# Generated from services/common/api by `make generate`; do not edit.\n"


@app.command()
def crds() -> None:
    """Write the CRDs into k8s/crds/, one file a kind."""
    CRDS.mkdir(parents=True, exist_ok=True)
    for kind in KINDS:
        manifest = yaml.safe_dump(custom_resource_definition(kind), sort_keys=False, width=120)
        (CRDS / f"{kind.plural}.yaml").write_text(HEADER + manifest)

"""``gitopsctl generate``: writes what is derived from the models. CI runs it and fails on a difference."""

from __future__ import annotations

import typer

from devstack.generate.manifests import TENANTS, WATCHER, crd_files, tenant_rules
from devstack.generate.markdown import with_block
from devstack.generate.reference import foreign_index, index, limits, page
from devstack.generate.settings_and_metrics import metrics_page, settings_page
from devstack.paths import DOCS, USER_DOCS
from services.common.package_data import CRDS, RBAC
from services.kinds.registry import REGISTRY

app = typer.Typer(help="Write generated files.", no_args_is_help=True)


@app.command()
def manifests() -> None:
    """Write the CRDs into k8s/crds/, one file a kind, and into k8s/rbac/ who may do what with them."""
    for name, text in crd_files(REGISTRY):
        (CRDS / name).write_text(text)
    role = RBAC / "watcher.yaml"
    for block, rules in WATCHER.items():
        role.write_text(with_block(role.read_text(), block, rules(REGISTRY)))
    tenants = RBAC / "tenants.yaml"
    for block, verbs in TENANTS.items():
        tenants.write_text(with_block(tenants.read_text(), block, tenant_rules(REGISTRY, verbs)))


@app.command()
def docs() -> None:
    """Write the reference for users into docs/users/, one page a kind and the list of them.

    And for operators docs/settings.md and docs/metrics.md.
    """
    (DOCS / "settings.md").write_text(settings_page())
    (DOCS / "metrics.md").write_text(metrics_page())
    for kind in REGISTRY.defined:
        (USER_DOCS / f"{kind.page}.md").write_text(page(kind))
    readme = USER_DOCS / "README.md"
    for block, kinds in {"kinds": index, "foreign": foreign_index}.items():
        readme.write_text(with_block(readme.read_text(), block, kinds(REGISTRY)))
    tenancy = USER_DOCS / "tenancy.md"
    tenancy.write_text(with_block(tenancy.read_text(), "limits", limits(REGISTRY)))

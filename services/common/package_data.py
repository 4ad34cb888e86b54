"""Files that a release reads besides its code: inside the package in a wheel, at the repository's top in a checkout.

``pyproject.toml`` lists the folders that a wheel contains. A file that only one module reads is next to that module.
"""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parents[1]
_IN_WHEEL = _PACKAGE / "data"
_ROOT = _IN_WHEEL if _IN_WHEEL.is_dir() else _PACKAGE.parent

AVRO_SCHEMAS = _ROOT / "schemas" / "avro"
CRDS = _ROOT / "k8s" / "crds"
MIGRATIONS = _ROOT / "migrations"
RBAC = _ROOT / "k8s" / "rbac"

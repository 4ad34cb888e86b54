"""Files that a release reads beside its code: in a wheel inside the package, in a checkout at the repository's top.

``pyproject.toml`` says which folders a wheel contains. What only one module reads lies beside that module instead.
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

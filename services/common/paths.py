"""Where the repository's files are: beside the ``services`` package, in a checkout and in the image alike."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
AVRO_SCHEMAS = ROOT / "schemas" / "avro"
CRDS = ROOT / "k8s" / "crds"
MIGRATIONS = ROOT / "migrations"
ACLS = ROOT / "compose" / "kafka" / "acls.yaml"
RBAC = ROOT / "k8s" / "rbac"
TOPICS = ROOT / "compose" / "topics.yaml"
DOCS = ROOT / "docs"
USER_DOCS = DOCS / "users"

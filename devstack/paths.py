"""Where things are in a checkout."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COMPOSE = ROOT / "compose"
DOCS = ROOT / "docs"
USER_DOCS = DOCS / "users"

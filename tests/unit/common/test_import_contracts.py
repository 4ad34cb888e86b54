"""Every module of the planner is either pure, as a contract of import-linter checks, or one of these edges."""

from __future__ import annotations

import tomllib
from typing import Any

from services.common.paths import ROOT

PLANNER = "services.planner"
EDGES = {
    "__init__",
    "__main__",
    "bootstrap",
    "consume",
    "decode",
    "load",
    "persist",
    "pulse",
    "revision",
    "service",
    "settings",
    "store",
    "tables",
    "upkeep",
}
CLIENTS = {"aiohttp", "asyncssh", "confluent_kafka", "httpx2", "psycopg", "sqlalchemy"}
"""Declared dependencies that open connections."""


def contract(name: str) -> dict[str, Any]:
    linter = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    found: dict[str, Any] = next(each for each in linter["contracts"] if each["name"] == name)
    return found


PURE = contract("Rules and compilers decide, they do no I/O")


def test_planner_module_when_it_is_no_edge_then_the_contract_covers_it() -> None:
    modules = {path.stem if path.suffix else path.name for path in (ROOT / "services" / "planner").glob("*")}
    modules -= {"__pycache__"}
    covered = {name.removeprefix(f"{PLANNER}.") for name in PURE["source_modules"] if name.startswith(PLANNER)}
    assert covered == modules - EDGES


def test_core_when_it_is_pure_then_no_client_and_no_edge_that_holds_one_is_allowed() -> None:
    forbidden = set(PURE["forbidden_modules"])
    assert forbidden >= CLIENTS
    assert forbidden >= {f"{PLANNER}.{edge}" for edge in ("consume", "load", "persist", "store", "tables")}

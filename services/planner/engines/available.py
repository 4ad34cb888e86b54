"""The engines there are, by the name that an instance has for what it runs. Another one is a folder and a line here."""

from __future__ import annotations

from collections.abc import Mapping

from services.planner.engines.argocd.implementation import ArgoCD
from services.planner.engines.interface import Engine
from services.planner.rows.fleet import DEFAULT_ENGINE

ENGINES: Mapping[str, Engine] = {DEFAULT_ENGINE: ArgoCD()}

"""``python -m devstack.argocd_simulator``."""

from devstack.argocd_simulator import SERVICE
from devstack.argocd_simulator.bootstrap import start
from devstack.argocd_simulator.settings import SimulatorSettings
from services.common.startup import run_service

run_service(SERVICE, SimulatorSettings, start)

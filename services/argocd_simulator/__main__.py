"""``python -m services.argocd_simulator``."""

from services.argocd_simulator import SERVICE
from services.argocd_simulator.bootstrap import start
from services.common.startup import run

run(SERVICE, start)

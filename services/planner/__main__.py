"""``python -m services.planner``."""

from services.common.startup import run_service
from services.planner import SERVICE
from services.planner.bootstrap import start
from services.planner.settings import PlannerSettings

run_service(SERVICE, PlannerSettings, start)

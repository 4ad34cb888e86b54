"""``python -m services.planner``."""

from services.common.startup import run
from services.planner import SERVICE
from services.planner.bootstrap import start

run(SERVICE, start)

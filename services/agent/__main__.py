"""``python -m services.agent``."""

from services.agent import SERVICE
from services.agent.bootstrap import start
from services.common.startup import run

run(SERVICE, start)

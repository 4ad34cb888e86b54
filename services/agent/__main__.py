"""``python -m services.agent``."""

from services.agent.bootstrap import start
from services.common.startup import run

run("agent", start)

"""``python -m services.agent``."""

from services.agent import SERVICE
from services.agent.bootstrap import start
from services.agent.settings import AgentSettings
from services.common.startup import run_service

run_service(SERVICE, AgentSettings, start)

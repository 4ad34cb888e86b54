"""``python -m services.agent.provisioning``."""

from services.agent.provisioning import PROVISIONER
from services.agent.provisioning.bootstrap import start
from services.agent.provisioning.settings import ProvisionerSettings
from services.common.startup import run_service

run_service(PROVISIONER, ProvisionerSettings, start)

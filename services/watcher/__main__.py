"""``python -m services.watcher``."""

from services.common.startup import run_service
from services.watcher import SERVICE
from services.watcher.bootstrap import start
from services.watcher.settings import WatcherSettings

if __name__ == "__main__":
    run_service(SERVICE, WatcherSettings, start)

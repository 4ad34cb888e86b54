"""``python -m services.watcher``."""

from services.common.startup import run
from services.watcher import SERVICE
from services.watcher.bootstrap import start

if __name__ == "__main__":
    run(SERVICE, start)

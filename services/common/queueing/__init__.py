"""The fair work queue of all services, and workers for it."""

from services.common.queueing.fair_semaphore import FairSemaphore
from services.common.queueing.slices import SLICE, in_slices
from services.common.queueing.work_queue import UNBOUNDED, Place, WorkQueue
from services.common.queueing.workers import Workers

__all__ = ["SLICE", "UNBOUNDED", "FairSemaphore", "Place", "WorkQueue", "Workers", "in_slices"]

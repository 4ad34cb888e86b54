"""Caches parsed kubeconfigs: each is opened and parsed once, for all environments and checks that use it.

Parsing takes up to some hundredths of a second, within the bounds of ``strict_yaml``, and the tenant decides how much.
So it runs in a thread, where the event loop gets its turn between two values. A tenant can cause that cost once for
each change of a Secret, and once for each check if it has more Secrets than are cached; few checks of a tenant run at
once.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict

from services.agent.credentials.check_result import CheckFailed, failed
from services.agent.credentials.clusters.kubeconfig import Kubeconfig, read_kubeconfig
from services.agent.credentials.recipe import Sealed, SealedSecretUnreadable, open_sealed_secret
from services.common.sealing import OpeningKeys, SecretContext
from services.kinds.managed_environment import catalogue as environment

MAX_KEPT = 64
"""Secrets; the least recently used is dropped first."""

_Key = tuple[bytes, SecretContext]


class KubeconfigCache:
    """Parsed kubeconfigs, and the failures of those that cannot be used, by their sealed text."""

    def __init__(self, keys: OpeningKeys) -> None:
        self._keys = keys
        self._read: OrderedDict[_Key, Kubeconfig | CheckFailed] = OrderedDict()

    async def load_kubeconfig(self, sealed: Sealed) -> Kubeconfig:
        """What is in ``sealed``. Raises CheckFailed."""
        key = (hashlib.blake2b(sealed.text.encode(), digest_size=32).digest(), sealed.context)
        if key not in self._read:
            self._read[key] = await asyncio.to_thread(self._outcome, sealed)
        self._read.move_to_end(key)
        outcome = self._read[key]
        while len(self._read) > MAX_KEPT:
            self._read.popitem(last=False)
        if isinstance(outcome, CheckFailed):
            raise CheckFailed(outcome.reason, outcome.message)  # one that is raised twice would hold both traces
        return outcome

    def _outcome(self, sealed: Sealed) -> Kubeconfig | CheckFailed:
        """In a thread."""
        try:
            return read_kubeconfig(open_sealed_secret(self._keys, sealed))
        except SealedSecretUnreadable as error:
            return failed(environment.UNPARSABLE_KUBECONFIG, str(error))
        except CheckFailed as error:
            return CheckFailed(error.reason, error.message)

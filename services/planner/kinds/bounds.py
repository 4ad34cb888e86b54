"""How long the texts may be that rows and statuses hold, in characters."""

MAX_CONDITION_MESSAGE = 32768
"""As the CRDs have it."""

MAX_SYNC_MESSAGE = 8192
"""What an engine says of a sync."""

MAX_CHECK_REASON = 128
MAX_CHECK_MESSAGE = 4096
"""What an agent found out about credentials."""

MAX_REFUSAL = 1024
"""What is wrong with a spec or a manifest."""

"""How long a field may be. Every string and list of a spec has a bound, so that no CEL rule and no message has none."""

MAX_URL = 2048
MAX_REPOSITORY = 512
"""Of a repository's URL: an AppProject, one object, lists all of a tenant. See ``urls.repository``."""
MAX_PATH = 1024
MAX_REVISION = 256
MAX_LABEL = 63
"""Of a DNS-1123 label, such as a namespace's name."""
MAX_NAME = 253
"""Of a DNS-1123 subdomain, such as an object's name."""
MAX_NAMESPACES = 250
"""Entries in an environment's list of namespaces."""
MAX_SYNC_OPTIONS = 10

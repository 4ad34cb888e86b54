"""CEL rules about URLs and revisions, shared by the kinds that have such fields.

``isURL`` is Go's ``url.ParseRequestURI``, which the webhooks before them called too: it accepts and refuses the same.
A rule stands at the field it is about, never at the object around it: the API server lets an unchanged field pass on
an update, so an object stored before its rule existed can still get a status, lose a finalizer and be mended.
"""

from __future__ import annotations

from typing import Any

from services.common.urls.repository_url import ASCII_MESSAGE, MAX_REPOSITORY, PASSWORD_MESSAGE
from services.kinds.shared.api_model import Rule, cel, rule

USER_INFO_MESSAGE = "must not carry a user name or password; put credentials in a Secret"
FRAGMENT_MESSAGE = "apiURL must not have a fragment (#)"
REVISION_MESSAGE = "a revision cannot begin with '-'"

_SCP = r"^[A-Za-z0-9._~+][A-Za-z0-9._~+-]*@[^@:/]+:[^:]"
_USER_INFO = r"^[^/]*//[^/?#]*@"
_USER_AND_MORE = r"^[^/]*//[^/?#:]*:[^/?#]*@"


def parses(field: str) -> Rule:
    """The value is an absolute URL."""
    return rule("isURL(self)", f"{field} must be an absolute URL: invalid URI for request")


def parses_or_has_scp_form(field: str) -> Rule:
    """The value is an absolute URL, or ``user@host:path`` as git takes it for ssh."""
    return rule(f"isURL(self) || self.matches('{_SCP}')", f"{field} must be an absolute URL: invalid URI for request")


def has_scheme(schemes: tuple[str, ...], message: str) -> Rule:
    """The URL has one of ``schemes`` and a host. An invalid URL passes, because ``parses`` refuses it."""
    listed = ", ".join(f"'{scheme}'" for scheme in schemes)
    return rule(f"!isURL(self) || (url(self).getScheme() in [{listed}] && url(self).getHostname() != '')", message)


def is_ascii(field: str) -> Rule:
    """No look-alikes from other alphabets, no invisible characters."""
    return rule("self.matches('^[!-~]*$')", f"{field} {ASCII_MESSAGE}")


def has_no_user_info(field: str) -> Rule:
    """Nothing before an ``@`` in the authority."""
    return rule(f"!self.matches('{_USER_INFO}')", f"{field} {USER_INFO_MESSAGE}")


def has_no_password(field: str) -> Rule:
    """A user name may stand before the ``@``, as in ``ssh://git@host``, a password may not."""
    return rule(f"!self.matches('{_USER_AND_MORE}')", f"{field} {PASSWORD_MESSAGE}")


def api_server(https_message: str) -> dict[str, Any]:
    """Schema of the URL of a cluster's API server, in a field that is named apiURL."""
    return cel(
        parses("apiURL"),
        has_scheme(("https",), https_message),
        has_no_user_info("apiURL"),
        is_ascii("apiURL"),
        # The agents tell environments apart by a query, which would be part of the fragment.
        rule("!self.contains('#')", FRAGMENT_MESSAGE),
    )


def repository(*rules: Rule) -> dict[str, Any]:
    """Schema of a repository's URL: ``rules``, and a length that new ones keep to.

    The models take longer ones, so that what was accepted before this length came can still be read.
    """
    return cel(*rules) | {"maxLength": MAX_REPOSITORY}


REVISION = rule("!self.startsWith('-')", REVISION_MESSAGE)
"""git would read such a revision as an option. No branch or tag has such a name."""

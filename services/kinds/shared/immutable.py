"""CEL rules for parts of a spec that cannot change."""

from __future__ import annotations

from services.kinds.shared.api_model import Rule, rule


def unchanged(field: str, kind: str) -> Rule:
    """The rule for a required field. Its text begins like the one of the former webhooks."""
    return rule("self == oldSelf", f"{field} field cannot be updated to another value; create another {kind}")


def unchanged_list(field: str, kind: str) -> Rule:
    """The rule for the object around an optional list. A rule of the list itself does not see it come or go."""
    before, now = (f"(has({each}.{field}) ? {each}.{field} : [])" for each in ("oldSelf", "self"))
    return rule(f"{now} == {before}", f"{field} cannot be updated to other ones; create another {kind}")

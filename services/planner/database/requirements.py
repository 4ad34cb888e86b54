"""What the database must be like: of the revision that this build was written for, and silent about our statements."""

from __future__ import annotations

import psycopg
from alembic.config import Config
from alembic.script import ScriptDirectory

from services.common.errors import InvalidConfiguration, NoPermission, Retry
from services.common.package_data import MIGRATIONS
from services.planner.database.connection import connect
from services.planner.database.errors import decision_on, described

SILENT = "panic"
"""From which severity on PostgreSQL logs the statement with its error: an error of ours has none so high."""


def head() -> str:
    """Newest revision among this build's migrations."""
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    return ScriptDirectory.from_config(config).get_current_head() or ""


def check_database(url: str, wanted: str) -> None:
    """Raises InvalidConfiguration if the database is not as this build needs it, Retry if it does not answer."""
    found, logged_from = _revision_and_log_level(url)
    if found != wanted:
        raise InvalidConfiguration(
            f"database is of revision '{found}', this build needs '{wanted}'; run 'gitopsctl database upgrade'"
        )
    if logged_from != SILENT:
        raise InvalidConfiguration(
            f"the database server would repeat statements that fail in its log, and ours carry tenants' rows; as a "
            f"superuser run ALTER ROLE gitops_planner SET log_min_error_statement = '{SILENT}'"
        )


def _revision_and_log_level(url: str) -> tuple[str, str]:
    try:
        with connect(url) as connection:
            row = connection.execute(
                "SELECT version_num, current_setting('log_min_error_statement') FROM alembic_version"
            ).fetchone()
    except psycopg.errors.UndefinedTable:
        return "none", ""
    except psycopg.errors.InsufficientPrivilege as error:
        raise NoPermission(f"DATABASE_URL: {error.diag.message_primary}; use the role gitops_planner") from error
    except psycopg.Error as error:
        raise _start_error(error) from error
    return (str(row[0]), str(row[1])) if row else ("none", "")


def _start_error(error: psycopg.Error) -> Exception:
    """A refused login does not heal by waiting, nor does a database of another sort."""
    text = described(error)
    if "password authentication failed" in text or "does not exist" in text:
        return NoPermission(f"DATABASE_URL: {text}")
    return Retry(text) if decision_on(error) is Retry else InvalidConfiguration(f"DATABASE_URL: {text}")

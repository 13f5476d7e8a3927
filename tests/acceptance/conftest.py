"""The criteria hold in files and in a database."""

from tests.contract.conftest import database, empty, fresh, migrated, server

__all__ = ["database", "empty", "fresh", "migrated", "server"]

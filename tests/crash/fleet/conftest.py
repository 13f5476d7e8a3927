from tests.contract.conftest import database, empty, migrated, server

__all__ = ["database", "empty", "migrated", "server"]

"""A PostgreSQL server for the fleet's tests."""

from tests.store.conftest import postgresql

__all__ = ["postgresql"]

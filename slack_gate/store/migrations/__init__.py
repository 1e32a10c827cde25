"""Every change of the tables, forward and back, by alembic; `store/schema.py` runs them."""

"""PostgreSQL: the tables, how tenants are read from them and written to them, and those that are kept in memory.

- ``session`` is what the loop sees of the database, ``connection`` how that is reached.
- ``tables`` declares the schema, ``columns`` makes statements from it and from rows.
- ``load`` reads tenants, which ``tenant_cache`` keeps in memory; ``*_queries`` and ``sweeps`` read what else is asked.
- ``save`` writes a batch in one transaction, with the statements of ``writes``.
- ``positions`` and ``tenant_clusters`` keep one table each.
"""

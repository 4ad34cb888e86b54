"""PostgreSQL: the tables, how tenants are read from them and written to them, and those that are kept in memory."""

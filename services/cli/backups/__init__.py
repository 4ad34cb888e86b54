"""Backups of the database: what is in one, how it is written and read, where it is kept."""

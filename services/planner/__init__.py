"""Decides what must be true elsewhere, and is the only writer of the database."""

"""Fills a database that takes the place of a lost one from the logs, and sweeps the topics by it."""

"""A database that takes the place of a lost one is filled from the logs, and topics are swept by it."""

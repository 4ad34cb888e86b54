"""``gitopsctl demo``: the whole product at work on this machine, told as a story in a live table."""

"""``gitopsctl describe``: the state of what users have, put together from several resources."""

"""The statements that write a batch's changes, in files named as those of ``tables``. ``save.py`` has their order."""

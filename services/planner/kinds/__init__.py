"""One module per resource kind: all its rules, as functions from values to values. No I/O, no clock."""

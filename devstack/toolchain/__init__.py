"""Downloads and builds the programs of the stack, once per machine."""

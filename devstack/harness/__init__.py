"""Starts, ends and follows a stack as a whole: for commands, the demo, benchmarks and tests."""

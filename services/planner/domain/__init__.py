"""What the planner decides: one tenant at a time, values in, values out. No I/O, no clock, no chance."""

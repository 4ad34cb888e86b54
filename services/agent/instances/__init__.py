"""Engine instances: which are this agent's, what each needs, and everything that runs for one."""

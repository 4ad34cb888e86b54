"""Environment: where components of applications are deployed to, and what is promoted to it after which other one."""

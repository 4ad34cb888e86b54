"""What the logs hold: is it complete, what did it say at a time, and that again."""

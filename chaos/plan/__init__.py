"""What a run does, as values: operations of users and intruders, and faults, in one order."""

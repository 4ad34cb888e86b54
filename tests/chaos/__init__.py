"""Two of everything, and faults: what one process does not do any more another does, and nothing is done twice."""

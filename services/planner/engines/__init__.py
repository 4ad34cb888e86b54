"""One compiler per GitOps engine: from rows to the objects it shall hold. No I/O."""

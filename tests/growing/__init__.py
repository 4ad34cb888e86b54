"""Two engine clusters, each with an API server, an agent and an engine of its own."""

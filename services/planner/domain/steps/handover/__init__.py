"""A tenant is handed over from one engine instance to another: the steps of its move, as part of its plan. Pure."""

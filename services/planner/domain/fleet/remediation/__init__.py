"""What planners do by themselves for instances that are ill: a ladder of remedies, and evacuations. Pure."""

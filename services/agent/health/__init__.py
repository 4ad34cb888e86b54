"""The health of an engine instance: what is measured, how it is judged, and how that is reported."""

"""What every service shares: messages, Kafka, Kubernetes, settings, telemetry. No service's rules live here."""

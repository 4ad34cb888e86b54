"""What services share: messages, Kafka, Kubernetes, settings, telemetry. It has no rules of any service."""

"""What has to be there at the brokers and in the schema registry."""

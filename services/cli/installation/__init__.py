"""What has to be there before the services run: tables, workspaces, the connector, definitions and rights."""

"""What agents and provisioners tell of instances: how they are, what they keep, how far their installation is. Pure."""

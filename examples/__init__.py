"""Services of others, as small as they can be: what they have to do, and how it is done with what this project has."""

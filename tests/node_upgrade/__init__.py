"""A package, so that what its tests share in package scope, such as a node, ends with the last of them."""

"""A package, so that what its tests share in package scope, such as a stack, ends with the last of them."""

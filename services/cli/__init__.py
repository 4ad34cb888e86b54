"""``gitopsctl``: everything an operator does with this product, one module per group of commands."""

"""``gitopsctl``: everything an operator or a developer does with this product, one module per group of commands."""

"""What measurements of a model mean: pure functions of tensors, which neither run nor print."""

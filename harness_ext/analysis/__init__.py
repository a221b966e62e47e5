"""What measurements of a model mean: functions of tensors and prompts, which run no model."""

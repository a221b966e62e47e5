"""Reading and writing the states of a model while it runs."""

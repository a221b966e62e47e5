"""Settings that hold for every test."""

import os

# No test may reach a hub. Set before any test imports a library that reads it.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"

"""The page people look at: everything that was measured in one HTML file that needs no network."""

from harness_ext.compare.page.heads import HeadScores, read_heads
from harness_ext.compare.page.render import render

__all__ = ["HeadScores", "read_heads", "render"]

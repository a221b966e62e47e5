"""Numbers in arguments."""

from __future__ import annotations

import argparse


def count(text: str) -> int:
    """A whole number from 0 on, for :mod:`argparse`."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text} is not a whole number ≥ 0")
    return int(text)

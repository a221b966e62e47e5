"""Re-checks the word lists against dictionaries nobody here wrote.

    python tests/dictionaries/check.py

Every module `check_*.py` beside this file has a function `check()`, which returns what its
dictionary says of the pairs it does not confirm: list → pair → finding. Each such pair needs its
reason in `unconfirmed.json`. Exit status: 0 if the two agree, 1 if a pair is unexplained or an
explanation no longer applies, 2 if a dictionary or a package is not installed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

HERE = Path(__file__).parent
LISTS = HERE.parents[1] / "tasks" / "lists"

Pairs = Mapping[str, str]  # pair → finding, or pair → reason


def compare(found: Mapping[str, Pairs], explained: Mapping[str, Pairs]) -> list[str]:
    """One line for each pair that is unexplained, or explained for nothing."""
    problems = []
    for name in sorted(found.keys() | explained.keys()):
        findings, reasons = found.get(name, {}), explained.get(name, {})
        problems += [
            f"{name}: {pair} is not confirmed ({findings[pair]}): "
            "correct the pair, or give the reason in unconfirmed.json"
            for pair in findings
            if not reasons.get(pair)
        ]
        problems += [
            f"{name}: {pair} is confirmed, or gone from the list: remove it from unconfirmed.json"
            for pair in reasons
            if pair not in findings
        ]
    return problems


def main_pairs(name: str) -> set[str]:
    """The pairs "x → y" of a word list, alternatives left aside."""
    lines = (LISTS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return {f"{row['x']} → {row['y']}" for row in map(json.loads, lines)}


def main() -> int:
    """Runs every check, prints its counts and problems, and returns the exit status."""
    found: dict[str, dict[str, str]] = {}
    try:
        for path in sorted(HERE.glob("check_*.py")):
            found |= import_module(path.stem).check()
    except FileNotFoundError as error:
        print(error)
        return 2
    except ModuleNotFoundError as error:
        print(f"{error}: pip install {error.name}")
        return 2
    explained = json.loads((HERE / "unconfirmed.json").read_text(encoding="utf-8"))
    for name, findings in found.items():
        pairs = main_pairs(name)
        print(f"{name}: {len(pairs - findings.keys())} of {len(pairs)} pairs confirmed")
        for pair, finding in findings.items():
            print(f"  {pair}: {finding}")
    problems = compare(found, explained)
    print("\n".join(problems) or "Every unconfirmed pair has its reason in unconfirmed.json.")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

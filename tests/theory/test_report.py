from __future__ import annotations

import json

from rich.console import Console

from harness_ext.theory import CHECKS, Preset, Workers, report, run

from .toy import Squares, Surprise


def outcomes():
    return run([Squares(), Surprise()], Preset("quick"), workers=Workers(jobs=1))


def shown(renderable) -> str:
    console = Console(width=120)
    with console.capture() as capture:
        console.print(renderable)
    return capture.get()


def test_a_check_leaves_figures_and_a_picture_in_two_formats(tmp_path) -> None:
    report.write(outcomes()[0], tmp_path)
    figures = json.loads((tmp_path / "figures.json").read_text())
    assert figures["claims"][0]["verdict"] == "holds"
    assert [cell["figures"]["square"] for cell in figures["cells"]] == [0, 1, 4, 9]
    assert (tmp_path / "figure.svg").read_text().lstrip().startswith("<?xml")
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")


def test_the_same_figures_make_the_same_bytes() -> None:
    assert report.pictures(outcomes()[0]) == report.pictures(outcomes()[0])


def test_the_table_says_where_a_verdict_differs_from_the_recorded_one() -> None:
    text = shown(report.verdicts(outcomes()))
    assert text.count("recorded:") == 1


def test_the_listing_names_checks_claims_and_recorded_outcomes() -> None:
    text = shown(report.listing([Squares(), Surprise()]))
    for word in ("squares", "surprise", "grow", "holds", "does not hold"):
        assert word in text


def test_long_names_of_checks_and_claims_are_whole_in_a_narrow_terminal() -> None:
    console = Console(width=80)
    with console.capture() as capture:
        console.print(report.listing(CHECKS))
    text = capture.get()
    for check in CHECKS:
        assert check.name in text
        for claim in check.claims:
            assert claim.key in text


def test_a_description_gives_every_claim_in_full() -> None:
    text = shown(report.description(Squares()))
    for word in ("grow", "Squares grow.", "arithmetic", "k²", "none needed", "holds"):
        assert word in text

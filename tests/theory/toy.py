"""A check that takes no time, for tests of the machinery around checks."""

from __future__ import annotations

from typing import Any

from harness_ext.theory.check import Cell, Check, Claim, Finding, Measured, Preset, verdict


class Squares(Check):
    """Measures squares; the claim is that they grow."""

    name = "squares"
    title = "Squares grow"
    claims = (Claim("grow", "Squares grow.", "arithmetic", "k²", "none needed", "holds"),)

    def cells(self, preset: Preset) -> list[Cell]:
        return [Cell(self.name, {"k": k}) for k in range(preset.seeds or 4)]

    def measure(self, cell: Cell) -> dict[str, Any]:
        return {"square": cell.settings["k"] ** 2}

    def judge(self, measured: Measured) -> list[Finding]:
        squares = [figures["square"] for _, figures in measured]
        grow = squares == sorted(squares)
        return [Finding("grow", verdict(grow, True), f"squares {squares}", "none", {})]

    def draw(self, measured: Measured, figure: Any) -> None:
        axis = figure.subplots()
        axis.plot([figures["square"] for _, figures in measured])
        axis.set(xlabel="k", ylabel="k²", title=self.title)


class Surprise(Squares):
    """The same, recorded to fail."""

    name = "surprise"
    claims = (Claim("grow", "Squares shrink.", "nobody", "k²", "none", "does not hold"),)

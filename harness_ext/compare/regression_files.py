"""A comparison for programs: JSON, and JUnit's XML that continuous integration reads."""

from __future__ import annotations

import json
import math
from typing import Any
from xml.etree import ElementTree

from harness_ext.compare.evaluations import PromptOf
from harness_ext.compare.regression_text import notes, summary
from harness_ext.compare.report import NOT_COMPARABLE, WORSE, Comparison, Flip, Report
from harness_ext.compare.text import visible

SUITE = "taskvec compare"


def as_json(report: Report, prompt_of: PromptOf) -> str:
    """Everything, with all flips; what is not known is null."""
    content = {
        "summary": summary(report),
        "regressed": report.regressed,
        "incomparable": report.incomparable,
        "compared": dict(report.pairing.varied),
        "only_in_base": list(report.pairing.only_base),
        "only_in_new": list(report.pairing.only_new),
        "limits": vars(report.limits),
        "changed_share": report.changed,
        "notes": notes(report),
        "comparisons": [
            {**_comparison(each, prompt_of), "least_significant_drop": report.least_drop(each)}
            for each in report.comparisons
        ],
    }
    return json.dumps(content, ensure_ascii=False, indent=1, allow_nan=False) + "\n"


def as_junit(report: Report) -> str:
    """A test case for every comparison, and for what else decides of the exit status.

    What cannot be compared is skipped; that not all could be is an error of its own.
    """
    suite = ElementTree.Element("testsuite", name=SUITE)
    for each in report.comparisons:
        case = ElementTree.SubElement(suite, "testcase", classname=SUITE, name=_xml(each.pair.name))
        if each.outcome == WORSE:
            message = (
                f"{each.metric} {each.base:.4f} in BASE, {each.new:.4f} in NEW; difference "
                f"{each.difference.estimate:+.4f} [{each.difference.low:+.4f}, "
                f"{each.difference.high:+.4f}], p {each.adjusted:.4g} after Holm; "
                f"{len(each.lost)} lost, {len(each.gained)} gained"
            )
            failure = ElementTree.SubElement(case, "failure", message=_xml(message), type=WORSE)
            failure.text = _xml("\n".join(_flip_line(flip, each.metric) for flip in each.lost))
        elif each.outcome == NOT_COMPARABLE:
            ElementTree.SubElement(case, "skipped", message=_xml(each.why))
    for side, names in (("BASE", report.pairing.only_base), ("NEW", report.pairing.only_new)):
        for name in names:
            case = ElementTree.SubElement(suite, "testcase", classname=SUITE, name=_xml(name))
            ElementTree.SubElement(case, "skipped", message=f"only in {side}")
    if report.limits.max_changed is not None:
        case = ElementTree.SubElement(
            suite, "testcase", classname=SUITE, name="share of answers that are other texts"
        )
        if report.changed is None:
            ElementTree.SubElement(case, "skipped", message="no answers to look at")
        elif report.too_many_changed:
            message = f"{report.changed:.4f}, allowed {report.limits.max_changed}"
            ElementTree.SubElement(case, "failure", message=message, type="changed")
    case = ElementTree.SubElement(suite, "testcase", classname=SUITE, name="all can be compared")
    if report.incomparable:
        ElementTree.SubElement(case, "error", message=report.incomparable, type=NOT_COMPARABLE)
    for name, key in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
        suite.set(key, str(len(suite.findall(f"testcase/{name}"))))
    suite.set("tests", str(len(suite)))
    text: str = ElementTree.tostring(suite, encoding="unicode", xml_declaration=True)
    return text + "\n"


def _comparison(each: Comparison, prompt_of: PromptOf) -> dict[str, Any]:
    numbers = {
        "base": each.base,
        "new": each.new,
        "difference": each.difference.estimate,
        "difference_low": each.difference.low,
        "difference_high": each.difference.high,
        "p_value": each.p_value,
        "p_value_holm": each.adjusted,
    }
    return {
        "task": each.pair.task,
        "place": each.pair.place,
        "metric": each.metric,
        "outcome": each.outcome,
        "why": each.why,
        **{name: None if math.isnan(value) else value for name, value in numbers.items()},
        "test": each.test,
        "documents": each.documents,
        "clusters": each.clusters,
        "only_in_base": each.unmatched[0],
        "only_in_new": each.unmatched[1],
        "unscored": each.unscored,
        "answered": each.answered,
        "changed": each.changed,
        "files": [[str(side.path) for side in both] for both in each.pair.evaluations],
        "flips": [_flip(flip, each.metric, prompt_of) for flip in each.flips],
    }


def _flip(flip: Flip, metric: str, prompt_of: PromptOf) -> dict[str, Any]:
    return {
        "doc_hash": flip.new.doc_hash,
        "seed": flip.evaluation.seed,
        "query": flip.new.query,
        "prompt": flip.new.prompt or flip.base.prompt or prompt_of(flip.evaluation, flip.new),
        "target": flip.new.target,
        "base": flip.base.answered(metric),
        "new": flip.new.answered(metric),
        "change": flip.change,
    }


def _flip_line(flip: Flip, metric: str) -> str:
    base, new = (side.answered(metric) for side in (flip.base, flip.new))
    return f"{flip.new.query!r}: {base!r} in BASE, {new!r} in NEW, target {flip.new.target!r}"


def _xml(text: str) -> str:
    """Text that XML can hold: it has no place for most control characters, even as references."""
    return visible(text)

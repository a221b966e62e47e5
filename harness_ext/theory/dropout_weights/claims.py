"""What the check `dropout-weights` claims."""

from harness_ext.theory.check import Claim

SOURCE = "Dong et al. 2026 (arXiv 2506.09048), Proposition 5"

CLAIMS = (
    Claim(
        "coefficients-printed",
        "The dropout risk has the coefficients printed in the proof.",
        f"{SOURCE}, appendix D.6",
        "the printed form over the average of all masks, at random weights and at a single arrow "
        "that reads all demonstrations; the same form against the model run token by token",
        "equal to 1e-10: both are sums of a few thousand products in float64",
        "does not hold",
    ),
    Claim(
        "coefficients-derived",
        "The dropout risk has the coefficients 2(p³−p⁴−p⁵+p⁶) on Σ M_ij⁴, 2(p⁴−p⁶) on rows, "
        "d(p³−p⁴)+2(p⁵−p⁶) on columns and d p⁴+p⁶ on ‖MMᵀ‖².",
        f"{SOURCE}, with the derivation done again",
        "the derived form over the average of all masks; the same form against the model run token "
        "by token, in standard errors",
        "equal to 1e-10 by enumeration, within 5 standard errors by simulation: its values have "
        "heavy tails, and some twenty comparisons are made",
        "holds",
    ),
    Claim(
        "causal-any-rate",
        "Under a causal mask the last arrow's weights grow towards the latest demonstration, "
        "whatever the keep rate.",
        SOURCE,
        "the last column of the best causal M, by keep rate",
        "each weight above the one before by 0.001 of the largest, far above the search's noise; "
        "the identity, a corner where all but the latest are 0, does not count",
        "does not hold",
    ),
    Claim(
        "causal-moderate-rate",
        "They grow strictly for keep rates from 0.2 up to a rate that depends on n (d = 4: 0.41 at "
        "n = 5, 0.58 at n = 10), beyond which the best M is the identity.",
        f"{SOURCE}, restricted",
        "the same, on either side of the rate at which the identity takes over (by bisection)",
        "rises at every rate of the grid below the turning point and at none above; rates below "
        "0.2 are left out, where many different M are equally good to four digits",
        "holds",
    ),
    Claim(
        "redundancy",
        "Triplet prompts have a lower risk than pairwise ones under token dropout, and the same "
        "without it: task vectors are redundancy (two layers, C = 0 in the first, exact).",
        f"{SOURCE} and section 3",
        "difference of the least risks E‖TF + Wx‖²/d, exact, optimised over all numbers",
        "lower by more than 0.001 for p < 1, the optimiser's error being below 1e-6",
        "holds",
    ),
    Claim(
        "redundancy-trained",
        "The same for models trained on sampled prompts with nothing held at zero.",
        f"{SOURCE} and section 3",
        "difference of the risks of trained models on the same fresh prompts and masks, in "
        "standard errors",
        "lower by more than 5 standard errors with dropout; within 0.2 %, what two trainings of "
        "the same model differ by, without dropout and with Λ4 held at zero",
        "holds",
    ),
)

"""Comparisons of recorded results. Reads result files alone: no model is loaded, no torch imported.

`reading` reads whatever lm-eval wrote as `evaluations`; `record` keeps them small. `statistics` and
`significance` hold intervals and tests. On these stand the leaderboard (`leaderboard` and the
`board_` modules), the bijection gap (`gap`, `table1`, `tables`), the page (`page`), regression
tests (`pairing` and the `regression` modules), task vectors at several shots (`shots`), and head
vectors and ablations (the `heads` modules).
"""

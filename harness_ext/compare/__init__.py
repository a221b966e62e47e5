"""Comparisons of recorded results. Reads result files alone: no model is loaded, no torch imported.

`record` turns lm-eval's output into the recorded form, `runs` reads it back, `statistics` holds the
intervals, `gap` the bijection gap, and `tables` the Markdown made from all of them; `shots` does so
for task vectors at several shots, and the `heads` modules for head vectors and ablations.
"""

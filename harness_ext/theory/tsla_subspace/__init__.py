"""Label subspaces and TR scores: the statement of Yang, Cho and Inoue 2026 (arXiv 2509.24164)."""

from harness_ext.theory.tsla_subspace.check import TSLASubspace

__all__ = ["TSLASubspace"]

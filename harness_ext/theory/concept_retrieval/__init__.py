"""Task concepts retrieved by vector arithmetic: the model of Bu et al. 2025 (arXiv 2508.09820)."""

from harness_ext.theory.concept_retrieval.check import ConceptRetrieval

__all__ = ["ConceptRetrieval"]

"""Attention heads that recognise a task, learn it, or induce: how they are scored and chosen."""

"""What the layers of trained linear-attention models do: concatenate, descend, precondition."""

from harness_ext.theory.layer_roles.check import LayerRoles
from harness_ext.theory.layer_roles.optima import pair_optimum
from harness_ext.theory.layer_roles.shares import Role, condition_numbers, explained, roles

__all__ = [
    "LayerRoles",
    "Role",
    "condition_numbers",
    "explained",
    "pair_optimum",
    "roles",
]

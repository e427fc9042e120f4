"""Constraints: contact with the static world, joint limits and dry friction, as MuJoCo defines them."""

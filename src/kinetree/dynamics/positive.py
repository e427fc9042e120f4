"""What methods that solve with H say when they can not: one ValueError, outside tracing, never a silent NaN."""

from typing import Any

import numpy as np
from jax.core import Tracer


def is_traced(x: Any) -> bool:
    """Whether x has no values yet, so that nothing can be said about them."""
    return isinstance(x, Tracer)


def require_solution(qdd: Any, method: str) -> Any:
    """qdd, if it is finite."""
    if not is_traced(qdd) and not np.isfinite(qdd).all():
        raise ValueError(
            f"{method}: the mass matrix is not positive definite in this precision, or an input is not finite; "
            "a mechanism with a massless leaf has no answer, a nearly singular one may have by method 'aba'"
        )
    return qdd

"""Types of arrays in signatures: `Float[Array, "... nv"]` is an array of real numbers whose last axis has nv entries.

They are jaxtyping's. To a type checker those are `Annotated`, and so they are here: kinetree itself checks nothing of
them at run time, and jaxtyping would take as long to import as NumPy. A program that imports jaxtyping before kinetree
gets jaxtyping's own, for a run-time checker of its choice.

Axes are named after what they count: nq and nv (coordinates and degrees of freedom), nu and na (controls and
activations), `bodies`; dots are batch axes, which broadcast.
"""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import jax
import numpy as np
from jax.typing import DTypeLike

if TYPE_CHECKING:
    from typing import Annotated as Bool
    from typing import Annotated as Float
    from typing import Annotated as Int
elif "jaxtyping" in sys.modules:
    from jaxtyping import Bool, Float, Int
else:
    from typing import Annotated

    Bool = Float = Int = Annotated

AnyArray: TypeAlias = jax.Array | np.ndarray
Number: TypeAlias = float | AnyArray  # JAX may trace it, or differentiate by it.
Vector: TypeAlias = Sequence[float] | AnyArray  # A few numbers, such as a position.
DType: TypeAlias = DTypeLike  # What names a type of numbers: numpy.float32, "float64".
Pytree: TypeAlias = Any  # Any nest of arrays that JAX takes: a tuple, a dictionary, a dataclass, or one array.
Array = TypeVar("Array", bound=jax.Array | np.ndarray)  # NumPy arrays in give NumPy arrays out, JAX's give JAX's.

__all__ = ["AnyArray", "Array", "Bool", "DType", "Float", "Int", "Number", "Pytree", "Vector"]

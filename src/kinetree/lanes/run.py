"""Running a lane program, on NumPy arrays or on JAX's.

NumPy arrays are computed in place by the compiled program. JAX arrays go through one primitive (primitive.py): on a CPU
an XLA FFI call of the same machine code, on an NVIDIA GPU one of a kernel made from the same text, elsewhere the XLA
body.
"""

import jax
import jax.numpy as jnp
import numpy as np

from .primitive import RUN, Bound
from .program.program import Program
from .program.teams import Teams
from .program.woven import Woven
from .target import compiled


def run(
    program: Program,
    slots: int,
    widths: tuple,
    tables: tuple,
    constants: tuple,
    inputs: tuple,
    woven: Woven | None = None,
    teams: Teams | None = None,
    written: Program | None = None,
) -> tuple:
    """Outputs (lanes, width) of a program on inputs (lanes, width).

    For each loop there is a table, (turns, columns) of int32, and an array of constants, (turns, count). On JAX arrays
    native bodies run the `woven` program where it is given, and may let several threads share a lane where `teams` are.
    A GPU runs the `written` one where it is given: the same, written out for one mechanism (cuda/sequence.py).
    """
    plain = all(isinstance(x, np.ndarray) for x in (*constants, *inputs))
    if plain and (native := compiled(program, np.dtype(inputs[0].dtype).name)) is not None:
        return native(slots, widths, tables, constants, inputs)
    inputs = tuple(x if isinstance(x, jax.Array) else jnp.asarray(x) for x in inputs)
    dtype = inputs[0].dtype  # JAX may have narrowed it
    constants = tuple(c if c.dtype == dtype else c.astype(dtype) for c in constants)
    bound = Bound(program, slots, tuple(widths), woven, teams, written)
    return tuple(RUN.bind(*tables, *constants, *inputs, bound=bound))

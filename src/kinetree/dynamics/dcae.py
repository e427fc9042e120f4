"""The efficient divide-and-conquer algorithm (Critchley, Anderson and Binani 2007, eq. 44 – 71): chains are cut into
chunks, each chunk is solved by O(n) recursions (chunk_recursion.py), and the chunks are joined as in DCA. Terminal
chunks need no second handle and are given more bodies. Trees are split at their branches as in DCA.

ACCURACY
"""

from typing import Any

from kinetree.model import Model

from .dca import divide_and_conquer
from .jointed_bodies import require_inertias
from .positive import require_solution


def forward_dynamics_dcae(
    model: Model, q: Any, qd: Any, tau: Any, f_ext: Any, *, chunks: int = 16, balance: float = 2.0
) -> Any:
    """Accelerations, (batch, nv); up to `chunks` to a path, the terminal one `balance` times (1 to 4) as long as the
    others.
    """
    if chunks < 1:
        raise ValueError(f"dcae needs at least one chunk, not {chunks}")
    if not 1 <= balance <= 4:
        raise ValueError(f"balance is between 1 and 4, not {balance}")
    require_inertias(model, "dcae")
    return require_solution(divide_and_conquer(model, q, qd, tau, f_ext, int(chunks), float(balance)), "dcae")

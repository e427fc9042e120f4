"""Published operation counts of the algorithms, as functions, to compare with measurements.

Each count is that of its paper, with its paper's assumptions (mostly chains of revolute joints, symbolically
optimised code, one operation to a processor at a time). kinetree's own code does not have these counts.
"""

import math
from typing import NamedTuple

import numpy as np

from kinetree.model.required import is_number
from kinetree.tree import Tree


class Operations(NamedTuple):
    """Multiplications (divisions among them) and additions on the longest way through an algorithm."""

    multiplications: float
    additions: float

    @property
    def total(self) -> float:
        """The sum of both, with equal weight."""
        return self.multiplications + self.additions

    def plus(self, other: "Operations") -> "Operations":
        """One after the other."""
        return Operations(self.multiplications + other.multiplications, self.additions + other.additions)

    def times(self, factor: float) -> "Operations":
        """Repeated."""
        return Operations(self.multiplications * factor, self.additions * factor)


def is_count(value: object) -> bool:
    """True if a value is a finite number, at least 1."""
    return is_number(value) and 1 <= value < math.inf  # type: ignore[operator]


def _rounds(n: int) -> int:
    """⌈log2 n⌉."""
    return (math.ceil(n) - 1).bit_length()


def _check(n: int, processors: int = 1) -> None:
    if not (is_count(n) and is_count(processors)):
        raise ValueError(f"a chain has at least one body and one processor, not {n} and {processors}")


# -- Critchley, Anderson and Binani 2007 (counts of Featherstone's for ABA and DCA), an n-body chain -----------------


def aba_serial(n: int) -> Operations:
    """The articulated-body algorithm on one processor: (300m + 279a) n (Critchley et al. 2007, after eq. 42)."""
    _check(n)
    return Operations(300, 279).times(n)


def dca(n: int, processors: int) -> Operations:
    """Divide and conquer on p processors (Critchley et al. 2007 eq. 43); with one, (1150m + 937a) n."""
    _check(n, processors)
    if processors == 1:
        return Operations(1150, 937).times(n)
    rounds, share = math.log2(processors / 2), n / processors
    return Operations(928 * rounds + 1150 * share - 1041, 812 * rounds + 937 * share - 845)


def dca_one_body_each(n: int) -> Operations:
    """Divide and conquer with a processor to each body: (928m + 812a) log2 n (Critchley et al. 2007, before eq. 43)."""
    _check(n)
    return Operations(928, 812).times(math.log2(n))


def dcae(n: int, processors: int) -> Operations:
    """DCA with the O(n) recursion inside equal chunks (Critchley et al. 2007 eq. 72); with one processor, ABA."""
    _check(n, processors)
    if processors == 1:
        return aba_serial(n)
    return _dcae_inner(n / processors, processors)


def _dcae_inner(share: float, processors: int) -> Operations:
    """Eq. 72 for processors that hold `share` bodies each."""
    rounds = math.log2(processors / 2)
    return Operations(928 * rounds + 637 * share - 495, 812 * rounds + 548 * share - 446)


def dcae_balanced(n: int, processors: int, balance: float = 2.0) -> Operations:
    """DCAe where the terminal chunk has `balance` times the bodies of the others: the slower of the two.

    The terminal chunk runs plain ABA, at 300m + 279a a body, where the others need 637m + 548a (Critchley et al.
    2007, load balancing, after eq. 72: twice as many bodies by the counts, three times as measured). Both take part
    in the assembly.
    """
    _check(n, processors)
    if processors == 1:
        return aba_serial(n)
    if not (is_number(balance) and 0 < balance < math.inf):
        raise ValueError(f"balance is a positive ratio, not {balance}")
    share = n / (processors - 1 + balance)
    assembly = Operations(928, 812).times(math.log2(processors / 2))
    inner = _dcae_inner(share, processors)
    terminal = Operations(300, 279).times(balance * share).plus(assembly)
    return max(inner, terminal, key=lambda count: count.total)


# -- Fijany and Bejczy 1989, an n-body chain of revolute joints on n (n + 1) / 2 processors --------------------------


def vneb_inertia_matrix(n: int) -> Operations:
    """(33m + 33a) ⌈log2 n⌉ + 109m + 71a (§III-C)."""
    _check(n)
    return Operations(33, 33).times(_rounds(n)).plus(Operations(109, 71))


def vneb_bias_vector(n: int) -> Operations:
    """15a ⌈log2 n⌉ + 141m + 101a (§IV)."""
    _check(n)
    return Operations(0, 15).times(_rounds(n)).plus(Operations(141, 101))


def vneb_linear_solve(n: int) -> Operations:
    """(3m + 2a)(n − 1) + 1m + 1a: square-root-free Cholesky and two triangular solves (§IV)."""
    _check(n)
    return Operations(3, 2).times(n - 1).plus(Operations(1, 1))


def vneb_forward_dynamics(n: int) -> Operations:
    """(3m + 2a) n + (33m + 48a) ⌈log2 n⌉ + 238m + 171a as printed (§IV).

    The three parts add up to 248m + 171a: the printed total has 10m less.
    """
    _check(n)
    return Operations(3, 2).times(n).plus(Operations(33, 48).times(_rounds(n))).plus(Operations(238, 171))


def aba_serial_lee_chang(n: int) -> Operations:
    """The serial ABA Fijany and Bejczy compare with: (380m + 302a) n − (198m + 173a) (§IV, after Lee and Chang)."""
    _check(n)
    return Operations(380, 302).times(n).plus(Operations(-198, -173))


# -- Lynghus 2026 §3.2, §5.3, §6.3: work and span of the vector-tree algorithms --------------------------------------


def lynghus_rnea(n: int) -> tuple[float, float]:
    """Work and span of RNEA by scans of the Euler tour: O(n) and O(log n); without constants (§5.3)."""
    _check(n)
    return float(n), math.log2(2 * n)


def lynghus_crba(n: int, depth: int) -> tuple[float, float]:
    """Work and span of H by CRBA: O(n² + n d) and O(log n); without constants (§6.3)."""
    _check(n)
    return float(n * n + n * depth), math.log2(2 * n)


# -- factorizations --------------------------------------------------------------------------------------------------


def ltdl(tree: Tree) -> Operations:
    """LᵀDL for a tree: d divisions and d (d + 1) / 2 updates for a row with d ancestors (RBDA §6.5)."""
    d = tree.depth.astype(np.int64)
    updates = int((d * (d + 1) // 2).sum())
    return Operations(updates + int(d.sum()), updates)


def ltdl_solve(tree: Tree) -> Operations:
    """Two triangular solves and a scaling: a product for each pair, twice, and a division for each row (RBDA §6.5)."""
    pairs = tree.n_ancestor_pairs - tree.n
    return Operations(2 * pairs + tree.n, 2 * pairs)


def ldlt(n: int) -> Operations:
    """The same without sparsity: as of a chain."""
    return ltdl(Tree(np.arange(n) - 1))


def ldlt_solve(n: int) -> Operations:
    """The same without sparsity: as of a chain."""
    return ltdl_solve(Tree(np.arange(n) - 1))

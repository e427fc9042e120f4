"""What an algorithm is: a few passes over the rows of a tree, each written once.

A pass is one function, `visit(row, state) -> (state, found)`, and a declaration of what it reads:

- `row` holds, by name, the constants of the row's link (`axis`, `inertia`, `armature`), its placement in its parent
  (`at`), the inputs that the pass declares (`qd`, `qdd`, `tau`), and the fields that earlier passes left for it.
- `state` is what flows along the tree. Outward it is the parent's state, and the result is the row's own. Inward it is
  the row's own share (`Share`) plus what its children passed, and the result is what the row passes to its parent.
- `found` has the fields that the pass leaves for later ones, and the outputs, by name.

A pass does not depend on slots, lanes, chunks or arrays. A schedule (schedules/) makes its program from it. To cut a
long path into chunks a schedule must know how consecutive rows act together: this is the pass's `Stretch`. If a
schedule needs more than a pass states, it refuses the pass and says why.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, get_args, get_type_hints

import jax
import jax.numpy as jnp

from kinetree.model import Placement
from kinetree.spatial import Force, Scalar, Transform, Vec3

State = Any  # A pytree of scalars: what flows along the tree. Inward states add up where branches meet.
Element = Any  # A pytree of scalars: a stretch of rows, acting on the state that enters it.
Found = dict[str, Any]
Visit = Callable[["Row", State], tuple[State, Found]]

LINK = ("axis", "inertia", "armature", "mass")  # The constants of a link that a pass may ask for.
AT = "at"  # The name of a row's placement among the fields.


class Row(dict[str, Any]):
    """What a pass may read of one row, by name: `row.axis`, `row.at`, `row.qd`, and fields of earlier passes."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"the pass does not declare {name!r}; it has {', '.join(self)}") from None


jax.tree_util.register_pytree_node(
    Row, lambda row: (tuple(row.values()), tuple(row)), lambda names, values: Row(zip(names, values, strict=True))
)


class Share(NamedTuple):
    """A row's own part of an inward sum: a function of some constants and of fields of earlier passes.

    It is separate from the visit, so that a schedule can compute it as soon as its fields exist, and keep either the
    fields or the share, whichever is smaller.
    """

    of: Callable[[Row], State]
    link: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Stretch:
    """How consecutive rows act together, which a schedule needs to cut a long path into chunks.

    With e1 the inner of two stretches, outward and inward have the laws
        act(element(row), s) == visit(row, s)             act(combine(e1, e2), s) == act(e2, act(e1, s))
        act(element(row, own), s) == visit(row, own + s)  act(combine(e1, e2), s) == act(e1, act(e2, s))
    where visit means its new state. `identity(x)` is a stretch of no rows, with components shaped like `x`.

    `extend` adds a row, if that is cheaper than an element and a combination: extend(e, row) outward, and extend(row,
    own, e) inward. `combine_components` is `combine` for native code, if the best text for XLA is not the best for
    registers. `inverse` is for schedules that take differences of prefixes. `placed(e)` is the placement of the outer
    end of an outward stretch in its inner one, if elements have it.

    The rest is for inward stretches. `passed(e)` is act(e, 0). `gathers` means that elements are cheap enough to be
    combined on the way out. `carry(X, state)` and `carry_back` are for states that only change coordinates from row to
    parent. A recursion may need a state at the outer end of a cut, so that it is not singular there: `ballast(last,
    mean)`, from the outermost link of a chunk and the mean of all its links. It is lent to the chunk inside the cut,
    and taken back from the chunk outside it by `lend`, with act(lend(e, s), t) == s + act(e, t).
    """

    element: Callable[..., Element]
    combine: Callable[[Element, Element], Element]
    act: Callable[[Element, State], State]
    identity: Callable[[Any], Element]
    extend: Callable[..., Element] | None = None
    inverse: Callable[[Element], Element] | None = None
    ballast: Callable[[Row, Row], State] | None = None
    lend: Callable[[Element, State], Element] | None = None
    passed: Callable[[Element], State] | None = None
    combine_components: Callable[[Element, Element], Element] | None = None
    carry: Callable[[Any, State], State] | None = None
    carry_back: Callable[[Any, State], State] | None = None
    gathers: bool = False
    placed: Callable[[Element], Any] | None = None


@dataclass(frozen=True)
class Pass:
    """One visit to each row.

    `state` names the field that flows. `given` are the inputs that the visit reads, `link` the constants, `needs` the
    fields of earlier passes (also `at`, except in the pass that places the rows). `leaves` are the fields that it
    leaves, `outputs` the results of the algorithm that it finds. Passes do not handle rotors, springs and the
    coordinates of quaternion joints: the schedules add them (joint_terms.py).
    """

    state: str
    visit: Visit
    given: tuple[str, ...] = ()
    link: tuple[str, ...] = LINK
    needs: tuple[str, ...] = ()
    leaves: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    stretch: Stretch | None = None
    own: Share | None = None
    places: bool = False  # True if the pass computes the placement of each row from its coordinate.


class Outward(Pass):
    """Base first: a row's state from its parent's."""


class Inward(Pass):
    """Leaves first: from its own share and what its children passed, a row finds what it passes to its parent."""


class Ancestors(Pass):
    """Each row's state, left by an earlier pass, carried up through its ancestors.

    `row` has the constants of the ancestor, and the fields of the row just below it on the way: `row.at` leads from the
    ancestor to that row.
    """


class Total(Pass):
    """The sum of the rows' own shares. It becomes a field of the base, and may be an output of the same name."""


class Bodies(Pass):
    """Each body once: `row.frame` is its frame in the row that carries it, and needs are fields of that row."""


class OneBody(Pass):
    """Only the body that a call is about, as in `Bodies`. In lanes other passes visit only the rows that carry it."""


class Base(Pass):
    """The base once: `row` has the `gravity`, the `mass` of all rows, and fields of the base."""


@dataclass(frozen=True)
class Algorithm:
    """Passes, and what flows between them.

    `fields` gives the type of each field, or an example of it. Every pass begins or ends at the base. The fields of the
    base are zero, and its placements the identity, except those that `begins` gives as functions of gravity. `outputs`
    gives the type of each output, or an example. There is one output for each row; only the output named by `matrix`
    has entries for pairs of rows.

    The rest is for the schedules. `moments`: bodies come as moments of mass. `keeps`: the form in which placements are
    kept for later passes, "screw" (three numbers; the transform is computed again) or "transform" (twelve). `accurate`:
    rotations stay quaternions at every depth. `applied` names the share, and the part of it, from which forces on
    bodies are subtracted. `columns` are the outputs that are matrices with a column for each row: (count, rows).
    `gives` says how mimic joints change an output ("force", "first", "matrix": model/coupling.py); other outputs do not
    change. `resting` names values that passes read as inputs, but that are zero in every call (lanes only).
    """

    name: str
    inputs: tuple[str, ...]
    passes: tuple[Pass, ...]
    fields: dict[str, Any]
    outputs: dict[str, Any]
    begins: dict[str, Callable[[Vec3], State]] = field(default_factory=dict)
    moments: bool = False
    keeps: str = "transform"
    accurate: bool = False
    applied: tuple[str, ...] = ()
    matrix: str = ""
    columns: tuple[str, ...] = ()
    gives: dict[str, str] = field(default_factory=dict)
    resting: tuple[str, ...] = ()
    again: "Algorithm | None" = None  # the same, with an early pass repeated in the last one (`placed_again`)
    shallow: "Algorithm | None" = None  # the same by matrices, for lanes of mechanisms with few levels

    def __post_init__(self) -> None:
        for name in ("fields", "outputs"):
            examples = {n: zeros(x) if isinstance(x, type) else x for n, x in getattr(self, name).items()}
            object.__setattr__(self, name, examples)

    def __hash__(self) -> int:
        return hash(self.name)

    def base(self, gravity: Vec3) -> Found:
        """The fields of the base at which passes begin or end, without those that a `Base` pass finds."""
        found = {name for p in self.passes if isinstance(p, Base) for name in p.leaves}
        flowing = [p.state for p in self.passes if isinstance(p, Outward | Inward | Total) and p.state not in found]
        return {n: self.begins[n](gravity) if n in self.begins else at_rest(self.fields[n], gravity.x) for n in flowing}

    @property
    def keeps_placements(self) -> bool:
        """True if a pass needs the placements that an earlier one computed."""
        return any(AT in p.needs for p in self.passes)

    @property
    def about_body(self) -> bool:
        """True if a call is about one body."""
        return any(isinstance(p, OneBody) for p in self.passes)

    @property
    def all_passes(self) -> tuple[Pass, ...]:
        """The passes, with one that only places the rows put first, if the first pass does not place them."""
        return self.passes if self.passes[0].places else (PLACING, *self.passes)

    def shares_after(self, p: Pass) -> list[Pass]:
        """The passes whose own shares can be computed right after `p`, but not earlier."""
        order = [x.state for x in self.all_passes if isinstance(x, Outward)]

        def ready(x: Pass) -> int:
            return max((order.index(n) for n in x.own.needs if n != AT), default=0)  # type: ignore[union-attr]

        return [x for x in self.passes if x.own and isinstance(p, Outward) and ready(x) == order.index(p.state)]


PLACING = Outward("", lambda row, parent: (None, {}), link=(), places=True)


def placed_again(algorithm: Algorithm) -> Algorithm:
    """The algorithm with its first pass repeated inside its last; both are outward.

    Values of the first pass that the last one needs are then computed twice and not kept. That suits a GPU, whose
    threads have little memory.
    """
    one, two = algorithm.passes[0], algorithm.passes[-1]
    again = f"{one.state}_again"

    def visit(row: Row, state: State) -> tuple[State, Found]:
        earlier, found = one.visit(row, state[0])
        later, outputs = two.visit(Row({**row, one.state: earlier, **found}), state[1])
        return (earlier, later), outputs

    def begin(gravity: Vec3) -> State:
        values = algorithm.base(gravity)
        return values[one.state], values[two.state]

    both = replace(
        two,
        state=again,
        visit=visit,
        given=tuple(dict.fromkeys(one.given + two.given)),
        link=tuple(dict.fromkeys(one.link + two.link)),
        needs=tuple(n for n in one.needs + two.needs if n not in (AT, one.state, *one.leaves)),
        stretch=None,
        places=True,
    )
    passes = list(algorithm.passes)
    passes[-1] = both
    fields = {k: v for k, v in algorithm.fields.items() if k != two.state}
    fields[again] = (algorithm.fields[one.state], algorithm.fields[two.state])
    begins = algorithm.begins | {again: begin}
    return replace(algorithm, name=f"{algorithm.name}_again", passes=tuple(passes), fields=fields, begins=begins)


def seen_as(p: Pass, known: Callable[[Row], Row], **changes: Any) -> Pass:
    """The pass with each row changed by `known` before the visit and the stretch; `changes` are fields of the pass."""

    def of(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *given: function(*(known(x) if isinstance(x, Row) else x for x in given))

    s = p.stretch
    stretch = s and replace(s, element=of(s.element), extend=s.extend and of(s.extend))
    return replace(p, **({"visit": of(p.visit), "stretch": stretch} | changes))


APPLIED = ("applied_nx", "applied_ny", "applied_nz", "applied_fx", "applied_fy", "applied_fz")


def less_force(value: State, part: tuple[str, ...], f: Force) -> State:
    """A share minus a force; or a share with a force subtracted from one part."""
    return value._replace(**{n: getattr(value, n) - f for n in part}) if part else value - f


def at_rest(example: Any, s: Scalar) -> Any:
    """A field of the base, with components shaped like `s`: the identity if it is a placement, else zero."""
    if not isinstance(example, tuple):
        return None if example is None else jnp.zeros_like(s)
    if isinstance(example, Placement | Transform):
        return type(example).identity_like(s)
    parts = (at_rest(x, s) for x in example)
    return type(example)(*parts) if hasattr(example, "_fields") else tuple(parts)


def zeros(kind: type) -> Any:
    """An example of a named tuple of components, all of them 0.0."""
    options = [option for option in (kind, *get_args(kind)) if hasattr(option, "_fields")]
    if not options:
        return 0.0
    (kind,) = options
    hints = get_type_hints(kind)
    return kind(*(zeros(hints[name]) for name in kind._fields))

"""Tendons of a compiled MuJoCo model."""

from typing import Any, NoReturn

import numpy as np

from kinetree.constrain.tendons import branches, meet
from kinetree.dynamics.tendons.build import Route, assembled
from kinetree.dynamics.tendons.paths import paths
from kinetree.model import Model, ModelError
from kinetree.model.equalities import TendonEqualities
from kinetree.model.tendons import Pull, Pulley, Tendons, Via, Wrap

from .mujoco_model import disabled, of_tendon_actuators
from .report import Report, few

JOINT, PULLEY, SITE, SPHERE, CYLINDER = 1, 2, 3, 4, 5  # MuJoCo's numbers of what a path is made of


def read_tendons(model: Model, m: Any, ours: dict[int, int], report: Report) -> Tendons | None:
    """All tendons.

    Arguments:
        model: our model of the mechanism.
        m: the compiled model.
        ours: our number of each of its bodies.
        report: takes what is not as in MuJoCo.
    """
    if not m.ntendon:
        return None
    names = tuple(m.tendon(t).name or f"tendon_{t}" for t in range(m.ntendon))
    routes = [_route(m, ours, t) for t in range(m.ntendon)]
    found = assembled(model, routes, _pull(m), np.array(m.tendon_length0), names)
    heavy = np.flatnonzero(found.pull.armature)
    if len(heavy) and model.nv:
        tree, at = model.tree, paths(model.structure, found.routes)
        every = zip(*branches(tree, at, heavy), strict=True)
        several = {int(t) for t, mask in every if meet(tree, at.dof[t][(mask > 0) & at.used[t]])}
        if several:
            which = few([names[t] for t in sorted(several)])
            report.warn(f"armature of tendon {which} couples branches that meet, which MuJoCo leaves out")
    return found


def _route(m: Any, ours: dict[int, int], tendon: int) -> Route:
    def fail(what: str) -> NoReturn:  # MuJoCo's compiler has refused it before
        raise ModelError(f"tendon {tendon}: {what}")

    parts = range(m.tendon_adr[tendon], m.tendon_adr[tendon] + m.tendon_num[tendon])
    route = Route()
    if m.wrap_type[parts[0]] == JOINT:
        route.fixed = [(int(m.jnt_dofadr[m.wrap_objid[p]]), float(m.wrap_prm[p])) for p in parts]
        return route
    return route.through([_part(m, ours, p) for p in parts], fail)


def _part(m: Any, ours: dict[int, int], part: int) -> Via | Wrap | Pulley:
    kind, thing, number = m.wrap_type[part], int(m.wrap_objid[part]), float(m.wrap_prm[part])

    def site(k: int) -> Via:
        return Via(ours[int(m.site_bodyid[k])], m.site_pos[k])

    if kind == PULLEY:
        return Pulley(number)
    if kind == SITE:
        return site(thing)
    body, place, turn = ours[int(m.geom_bodyid[thing])], m.geom_pos[thing], m.geom_quat[thing]
    shape = "cylinder" if kind == CYLINDER else "sphere"
    return Wrap(shape, m.geom_size[thing, 0], body, place, turn, site(round(number)) if number >= 0 else None)


def _pull(m: Any) -> Pull:
    n = m.ntendon

    def given(name: str, *shape: int) -> np.ndarray:
        return np.array(getattr(m, f"tendon_{name}"), float).reshape(n, *shape)

    def limited(which: str, ranges: str) -> np.ndarray:
        return np.where(given(which)[:, None] != 0, given(ranges, 2), [-np.inf, np.inf])

    springs, dampers = not disabled(m, "SPRING"), not disabled(m, "DAMPER")
    return Pull(
        given("stiffness") * springs,
        given("lengthspring", 2),
        (given("damping") + of_tendon_actuators(m, "actuator_damping")) * dampers,
        given("armature") + of_tendon_actuators(m, "actuator_armature"),
        limited("limited", "range"),
        given("margin"),
        given("solref_lim", 2),
        given("solimp_lim", 5),
        given("frictionloss"),
        given("solref_fri", 2),
        given("solimp_fri", 5),
        limited("actfrclimited", "actfrcrange"),
    )


def read_tendon_equalities(m: Any, which: np.ndarray) -> TendonEqualities:
    """The equalities `which`, all between tendons."""
    return TendonEqualities(
        np.array(m.eq_data[which, :5]),
        np.array(m.eq_solref[which]),
        np.array(m.eq_solimp[which]),
        tuple(m.eq_obj1id[which].tolist()),
        tuple(m.eq_obj2id[which].tolist()),
    )

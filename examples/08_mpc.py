"""Plan a motion of the seven-axis arm by iLQR, and follow it though the arm carries a load that the plan ignores.

Each iteration takes the derivatives of the dynamics at all points of the plan in one call, solves the linear-quadratic
problem backward (Li and Todorov 2004), and tries ten step lengths side by side, as ten worlds of one rollout. The gains
that come with the plan then correct it: without them the load pulls the arm off.

    python examples/08_mpc.py
    python examples/08_mpc.py ur5.urdf     # another arm
"""

import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import kinetree as kt

jax.config.update("jax_enable_x64", True)
ARM = Path(sys.argv[1]) if sys.argv[1:] else Path(__file__).parent / "robots" / "arm7.urdf"
STEPS, DT = 100, 0.01
POSITION, SPEED, EFFORT = 2e3, 20.0, 1e-3  # weights: of the end, of the end, of every step
LENGTHS = 0.5 ** np.arange(10)  # step lengths that are tried


def arm() -> kt.Model:
    """The arm with a motor, its rotor and a damper in every joint that follows no other, free of limits."""
    model = kt.load(ARM).without_constraints
    endless = np.full_like(model.limits.effort, np.inf)
    model = model.replace(limits=model.limits._replace(effort=endless))  # some files have zeros
    columns = {j: model.v_index(j) for j in reversed(model.joint_names)}
    driven = {at.start: j for j, at in columns.items() if at.start < at.stop}  # a mimic joint moves with its leader
    model = model.replace(actuators=[kt.Actuator.motor(driven[k]) for k in sorted(driven)])
    return model.replace(armature=0.1, damping=0.5, timestep=DT, integrator="semi_implicit")


def loaded(model: kt.Model, mass: float) -> kt.Model:
    """The arm with a load in its hand: at the origin of the last body that has a mass."""
    inertia = np.array(model.inertia.array())
    hand = np.flatnonzero(model.inertia.mass)[-1]
    inertia[hand, 0] += mass
    inertia[hand, 4:7] += 0.01 * mass  # a ball of 16 cm
    return model.replace(inertia=inertia)


def follow(plan, carry, state, key):
    """The plan's controls, corrected by its gains; `plan` is (q, qd, controls, change, gains, length)."""
    q, qd, controls, change, gains, length = plan
    off = jnp.concatenate([state.q - q[carry], state.qd - qd[carry]], -1)
    step = length * change[carry] + (gains[carry] @ off[..., None])[..., 0]
    return carry + 1, controls[carry] + step


def linearised(model, q, qd, controls):
    """A (steps, 2n, 2n) and B (steps, 2n, n) of the steps of the plan, by one call for all of them."""
    by_q, by_qd, by_tau = kt.forward_dynamics_derivatives(model, q, qd, controls)
    n, one = model.nv, np.broadcast_to(np.eye(model.nv), by_q.shape)
    speed = np.concatenate([DT * by_q, one + DT * by_qd], -1)  # semi-implicit Euler: speeds first, then positions
    place = np.concatenate([one, np.zeros_like(one)], -1) + DT * speed
    return np.concatenate([place, speed], -2), np.concatenate([DT * DT * by_tau, DT * by_tau], -2), n


def backward(A, B, n, controls, end, goal):
    """Changes and gains of the controls, from the end to the start."""
    weight = np.diag(np.repeat([POSITION, SPEED], n))
    V, v = weight, weight @ (end - goal)
    change, gains = np.zeros_like(controls), np.zeros((len(controls), n, 2 * n))
    for t in reversed(range(len(controls))):
        Qu = EFFORT * controls[t] + B[t].T @ v
        Quu = EFFORT * np.eye(n) + B[t].T @ V @ B[t]
        solved = np.linalg.solve(Quu, np.column_stack([Qu, B[t].T @ V @ A[t]]))
        change[t], gains[t] = -solved[:, 0], -solved[:, 1:]
        v = A[t].T @ (v + V @ B[t] @ change[t])
        V = A[t].T @ V @ (A[t] + B[t] @ gains[t])
        V = (V + V.T) / 2
    return change, gains


def cost(end, controls, goal):
    """Of plans side by side: (plans,)."""
    off = end - goal
    n = off.shape[-1] // 2
    with np.errstate(over="ignore", invalid="ignore"):  # the longest steps may fly away
        end = POSITION * (off[..., :n] ** 2).sum(-1) + SPEED * (off[..., n:] ** 2).sum(-1)
        return (end + EFFORT * (controls**2).sum((0, -1))) / 2


def plan(model, state, goal, iterations=30):
    """Controls and gains that bring the arm to the goal, and the cost on the way."""
    n = model.nv
    controls = np.tile(kt.gravity_force(model, state.q), (STEPS, 1))
    gains, change, history = np.zeros((STEPS, n, 2 * n)), np.zeros((STEPS, n)), []
    q, qd = np.zeros((STEPS, n)) + state.q, np.zeros((STEPS, n))
    many = jax.tree.map(lambda x: np.broadcast_to(x, (len(LENGTHS), *np.shape(x))), state)
    for _ in range(iterations):
        parts = q, qd, controls, change, gains, LENGTHS[:, None]
        policy = jax.tree_util.Partial(follow, tuple(map(jnp.asarray, parts)))
        after, seen = kt.rollout(model, many, policy, steps=STEPS, carry=np.zeros((), int), record=("q", "qd", "ctrl"))
        costs = cost(np.concatenate([after.q, after.qd], -1), seen["ctrl"], goal)
        best = int(np.nanargmin(costs))
        if history and costs[best] > history[-1] * (1 - 1e-6):
            break
        history.append(costs[best])
        q, qd, controls = (seen[name][:, best] for name in ("q", "qd", "ctrl"))
        end = np.concatenate([after.q[best], after.qd[best]])
        change, gains = backward(*linearised(model, q, qd, controls), controls, end, goal)
    return (q, qd, controls, 0 * change, gains), history


def main():
    """Plan, then follow with and without the gains."""
    model = arm()
    n = model.nv
    state = kt.initial_state(model, np.resize([0.0, 0.6, 0.0, 1.2, 0.0, 0.5, 0.0], n))
    goal = np.concatenate([np.resize([1.0, -0.4, 0.5, 0.8, -0.6, 0.9, 0.3], n), np.zeros(n)])
    found, history = plan(model, state, goal)
    print(f"{model}: cost {history[0]:.1f} at first, {history[-1]:.3f} after {len(history)} iterations")
    assert history[-1] < 0.1 * history[0]
    heavy, errors = loaded(model, 2.0), {}
    for name, gains in (("plan alone", 0 * found[4]), ("plan and gains", found[4])):
        policy = jax.tree_util.Partial(follow, (*map(jnp.asarray, (*found[:4], gains)), jnp.zeros(())))
        after, _ = kt.rollout(heavy, state, policy, steps=STEPS, carry=np.zeros((), int))
        errors[name] = np.abs(after.q - goal[:n]).max()
        print(f"  with a load of 2 kg, {name:14}: {errors[name]:.4f} rad off the goal")
    assert errors["plan and gains"] < 0.2 * errors["plan alone"]


if __name__ == "__main__":
    main()

"""Find the dampers and the load of an arm from a recorded, noisy run: derivatives through rollouts.

The seven-axis arm, here simulated, moves under known torques. Angles and speeds are recorded with noise. The run is cut
into pieces that start from what was recorded; each piece is rolled out, and parameters are changed until the pieces end
where the record says: Levenberg and Marquardt's method, with derivatives by forward mode through `kt.rollout`.

    python examples/09_identify.py
    python examples/09_identify.py ur5.urdf     # another arm
"""

import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import kinetree as kt

jax.config.update("jax_enable_x64", True)
ARM = Path(sys.argv[1]) if sys.argv[1:] else Path(__file__).parent / "robots" / "arm7.urdf"
DT, STEPS, PIECE = 0.005, 2000, 20
STIFFNESS = np.array([80.0, 80.0, 50.0, 50.0, 20.0, 10.0, 5.0])  # N m/rad, of the servos that move it
NOISE = np.array([2e-4, 2e-3])  # rad, rad/s


def driven(model: kt.Model) -> list[str]:
    """The joints that follow no other, one for each coordinate; a mimic joint moves with its leader."""
    columns = {j: model.v_index(j) for j in reversed(model.joint_names)}
    found = {at.start: j for j, at in columns.items() if at.start < at.stop}
    return [found[k] for k in sorted(found)]


def arm() -> kt.Model:
    """The arm as it is drawn, with a motor and its rotor in every joint that follows no other."""
    model = kt.load(ARM).without_constraints
    model = model.replace(actuators=[kt.Actuator.motor(j) for j in driven(model)])
    return model.replace(armature=0.1, timestep=DT, integrator="implicitfast")


def with_parameters(model, x):
    """Dampers (nv,) as factors of e, then the mass of a load at the hand."""
    hand = np.flatnonzero(model.inertia.mass)[-1]  # the last body that has a mass
    load = jnp.zeros(10).at[0].set(x[-1]).at[4:7].set(0.01 * x[-1])
    inertia = jnp.asarray(model.inertia.array()).at[hand].add(load)
    rows = np.array(
        [model.uncoupled.v_index(j).start for j in driven(model)]
    )  # mimic joints have rows, too: no dampers
    return model.replace(damping=jnp.zeros(model.uncoupled.nv).at[rows].set(jnp.exp(x[:-1])), inertia=inertia)


def record(model, real, rng):
    """States (STEPS + 1, n) with noise, and the torques that caused them."""
    start = kt.initial_state(model, np.resize([0.0, 0.6, 0.0, 1.2, 0.0, 0.5, 0.0], model.nq))
    phase, held = rng.uniform(0, 6, (3, model.nv)), kt.gravity_force(model, start.q)

    def servo(carry, state, key):  # swings every joint about where it starts
        wave = sum(jnp.sin(2 * jnp.pi * f * state.time + p) for f, p in zip((0.3, 0.7, 1.1), phase, strict=True))
        return carry, held + np.resize(STIFFNESS, model.nv) * (start.q + 0.4 * wave - state.q)

    real_arm = with_parameters(model, jnp.asarray(real))
    after, seen = kt.rollout(real_arm, start, servo, steps=STEPS, record=("q", "qd", "ctrl"))
    q, qd = (np.concatenate([seen[k], getattr(after, k)[None]]) for k in ("q", "qd"))
    return q + NOISE[0] * rng.standard_normal(q.shape), qd + NOISE[1] * rng.standard_normal(qd.shape), seen["ctrl"]


def fit(model, q, qd, torques, x, iterations=25):
    """The parameters that explain the record, and the size of what is left."""
    pieces = STEPS // PIECE
    begin = kt.initial_state(model, jnp.asarray(q[:-1:PIECE]), jnp.asarray(qd[:-1:PIECE]))
    ends = q[PIECE::PIECE], qd[PIECE::PIECE]
    forces = jnp.asarray(torques.reshape(pieces, PIECE, -1).swapaxes(0, 1))

    @jax.jit
    def left(x):
        after, _ = kt.rollout(with_parameters(model, x), begin, forces, steps=PIECE)
        return jnp.concatenate(
            [((a - b) / n).ravel() for a, b, n in zip((after.q, after.qd), ends, NOISE, strict=True)]
        )

    slopes, history, damping = jax.jit(jax.jacfwd(left)), [], 1.0
    r = np.asarray(left(x))
    for _ in range(iterations):
        J = np.asarray(slopes(x))
        H = J.T @ J
        step = np.linalg.solve(H + damping * np.diag(np.diag(H)), -J.T @ r)
        new = np.asarray(left(x + step))
        better = new @ new < r @ r
        damping = damping / 5 if better else damping * 5
        x, r = (x + step, new) if better else (x, r)
        history.append(float(np.sqrt(np.mean(r**2))))
        if np.abs(step).max() < 1e-6:
            break
    return np.asarray(x), history


def main():
    """Record, fit, compare."""
    rng = np.random.default_rng(0)
    model = arm()
    real = np.append(np.log(rng.uniform(0.3, 1.5, model.nv)), 1.3)
    found, history = fit(model, *record(model, real, rng), jnp.asarray(np.append(np.log(np.full(model.nv, 0.1)), 0.0)))
    print(f"{STEPS} steps of {model}, {STEPS // PIECE} pieces; {len(history)} iterations")
    print(f"  what is left, in sizes of the noise: {history[0]:.2f} at first, {history[-1]:.2f} at the end")
    print(f"  dampers, real : {np.exp(real[:-1]).round(3)}")
    print(f"  dampers, found: {np.exp(found[:-1]).round(3)}")
    print(f"  load: {real[-1]:.3f} kg, found {found[-1]:.3f} kg")
    assert abs(found[-1] - real[-1]) < 0.02
    assert np.abs(np.exp(found[:-1]) / np.exp(real[:-1]) - 1).max() < 0.1


if __name__ == "__main__":
    main()

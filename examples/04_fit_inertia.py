"""Recover the masses and centres of mass of a seven-axis arm from measured forces, by gradient.

The drawing of the arm has every centre of mass on the axis of its link. The real arm, here simulated, carries motors
and cables: each link weighs something else, and its centre of mass is off the axis. The arm stands on a force sensor:
what the sensor and the seven joints measure is inverse dynamics of the arm on a free base that is held still. The
loss is a plain JAX function of the masses and centres of mass, and its gradient leads from the drawing to the real
arm.

    python examples/04_fit_inertia.py [--plot fit.png]
"""

import argparse
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import minimize

import kinetree as kt

jax.config.update("jax_enable_x64", True)
ARM = Path(__file__).parent / "robots" / "arm7.urdf"
STATES = 200


def inertia_numbers(about_center, masses, centers):
    """(n, 10) numbers of bodies whose rotational inertia about the centre of mass is known."""
    x, y, z = centers.T
    squares = jnp.stack([y * y + z * z, x * x + z * z, x * x + y * y, -x * y, -x * z, -y * z], -1)
    moments = about_center + masses[:, None] * squares
    return jnp.concatenate([masses[:, None], masses[:, None] * centers, moments], -1)


def held_motion(model, rng):
    """States of the arm with its base at rest."""
    q, qd = kt.random_state(model, 0, (STATES,))
    qdd = 3 * rng.standard_normal(qd.shape)
    q[:, :7], qd[:, :6], qdd[:, :6] = [0, 0, 0, 1, 0, 0, 0], 0, 0
    return tuple(map(jnp.asarray, (q, qd, qdd)))


def fit():
    """Parameters (7, 4) of the drawing, the real arm and the fit, and the loss at each step."""
    rng = np.random.default_rng(0)
    model = kt.load(ARM, floating_base=True).without_passive
    motion = held_motion(model, rng)
    masses = np.asarray(model.inertia.mass)
    centers = np.stack(model.inertia.h, -1) / masses[:, None]
    about_center = np.stack(model.inertia.I, -1) - np.asarray(inertia_numbers(0.0, masses, centers))[:, 4:]
    drawing = np.concatenate([masses[:, None], centers], -1)
    real = drawing.copy()
    real[1:, 0] *= rng.uniform(0.7, 1.3, 7)
    real[1:, 1:] += 0.03 * rng.standard_normal((7, 3))

    def forces(links):
        whole = jnp.concatenate([drawing[:1], links])  # the base is as drawn
        numbers = inertia_numbers(about_center, whole[:, 0], whole[:, 1:])
        return kt.inverse_dynamics(model.replace(inertia=numbers), *motion)

    def links(steps):  # logarithms keep masses positive, without which there are other minima
        steps = steps.reshape(7, 4)
        return jnp.concatenate([drawing[1:, :1] * jnp.exp(steps[:, :1]), drawing[1:, 1:] + 0.1 * steps[:, 1:]], -1)

    measured = forces(jnp.asarray(real[1:]))
    sizes = np.asarray(measured).std(0)

    @jax.jit
    @jax.value_and_grad
    def loss(steps):
        return (((forces(links(steps)) - measured) / sizes) ** 2).mean()

    history = []

    def watched(steps):
        value, gradient = loss(jnp.asarray(steps))
        history.append(float(value))
        return 1e6 * float(value), 1e6 * np.asarray(gradient)  # BFGS starts with a step the size of the gradient

    result = minimize(watched, np.zeros(28), jac=True, method="BFGS", options={"gtol": 1e-9, "maxiter": 2000})
    return drawing[1:], real[1:], np.asarray(links(result.x)), history


def plot(drawing, real, found, history, path):
    """Parameters before and after, and the loss on the way."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(13, 4), layout="constrained")
    links = np.arange(1, 8)
    left.plot(links, drawing[:, 0], "o", color="0.7", label="drawing")
    left.plot(links, real[:, 0], "s", mfc="none", ms=10, label="real arm")
    left.plot(links, found[:, 0], "k.", label="fit")
    left.set(xlabel="link", ylabel="mass (kg)", title="masses")
    left.legend(frameon=False)
    for k, axis in enumerate("xyz"):
        middle.plot(100 * real[:, 1 + k], 100 * found[:, 1 + k], "o", mfc="none", label=axis)
        middle.plot(100 * real[:, 1 + k], 100 * drawing[:, 1 + k], ".", color="0.7")
    ends = 100 * np.array([real[:, 1:].min(), real[:, 1:].max()])
    middle.plot(ends, ends, lw=0.5, color="0.5")
    middle.set(xlabel="real (cm)", ylabel="fit, and drawing in grey (cm)", title="centres of mass")
    middle.legend(frameon=False)
    right.semilogy(history)
    right.set(xlabel="evaluation of the gradient", ylabel="mean squared error of forces", title="loss")
    figure.savefig(path, dpi=150)


def main():
    """Fit, report, plot."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plot", type=Path, default=Path("fit_inertia.png"), help="where the plot goes")
    options = parser.parse_args()
    drawing, real, found, history = fit()
    for name, at in (("drawing", drawing), ("fit", found)):
        worst = np.abs(at - real).max(0)
        print(f"{name:8} worst error of a mass {worst[0]:.1e} kg, of a centre of mass {worst[1:].max():.1e} m")
    print(f"{len(history)} evaluations of the gradient; plot in {options.plot}")
    plot(drawing, real, found, history, options.plot)


if __name__ == "__main__":
    main()

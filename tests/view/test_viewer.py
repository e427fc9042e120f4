"""The viewer, in a real browser: the page loads, the canvas draws, a slider moves the robot, a run plays."""

import numpy as np
import pytest

import kinetree as kt
from tests.simulate.robots import ROBOTS
from tests.view.browser import Browser, available

pytest.importorskip("viser")
pytestmark = [
    pytest.mark.skipif(not available(), reason="chromium and chromedriver are not installed"),
    pytest.mark.filterwarnings("ignore"),  # the websocket library's own
]
RIGHT = "\ue014"  # the arrow key


def coloured(picture: np.ndarray) -> int:
    """Pixels that are neither white nor grey: those of the robot, left of the controls."""
    scene = picture[:, : int(0.62 * picture.shape[1])]
    return int(np.count_nonzero(np.ptp(scene, axis=-1) > 25))


@pytest.fixture(scope="module")
def browser():
    with Browser() as b:
        yield b


def test_slider_moves_the_robot(browser):
    from kinetree.view.viewer import Viewer

    path = ROBOTS / "arm7.urdf"
    viewer = Viewer(kt.load(path), source=path, port=18080)
    try:
        browser.open(viewer.url)
        sliders = browser.eventually(lambda: browser.find('[role="slider"]'))
        assert len(sliders) == 7
        browser.eventually(lambda: coloured(browser.picture()) > 500)
        before = browser.picture()
        browser.press(sliders[1], 60 * RIGHT)
        browser.eventually(lambda: viewer.q[1] > 0.5)
        browser.eventually(lambda: np.count_nonzero(np.abs(browser.picture() - before).max(-1) > 40) > 2000)
    finally:
        viewer.stop()


def test_a_chain_of_a_kilometre_is_seen(browser):
    """`kinetree view chain:1000`: beyond the far plane of a camera made for robots of some metres."""
    from kinetree.view.viewer import Viewer

    viewer = Viewer(kt.auto_tree(1000, skew=np.pi / 2), port=18100)
    try:
        browser.open(viewer.url)
        browser.eventually(lambda: coloured(browser.picture()) > 50)
    finally:
        viewer.stop()


def test_a_long_chain_plays(browser):
    """10 000 bodies: one set of lines, played back."""
    from kinetree.view.viewer import Viewer

    model = kt.auto_tree(10_000, skew=np.pi / 2, taper=0.9995)
    angles = 0.02 * np.sin(np.linspace(0, 2 * np.pi, 20))[:, None] * np.ones(model.nv)
    run = kt.Trajectory(np.arange(20) * 0.1, angles, np.zeros_like(angles), np.zeros_like(angles))
    viewer = Viewer(model, run, port=18090)
    try:
        browser.open(viewer.url)
        browser.eventually(lambda: coloured(browser.picture()) > 50)
        buttons = browser.eventually(lambda: browser.find("button"))
        assert buttons
        first = browser.picture()
        viewer.toggle()
        browser.eventually(lambda: np.abs(browser.picture() - first).max() > 40)
        browser.eventually(lambda: viewer.record.value > 3)
    finally:
        viewer.stop()

"""The viewer, in a real browser: it draws, it plays at once, a slider moves the robot, many states are seen."""

import numpy as np
import pytest

import kinetree as kt
from tests.simulate.robots import ROBOTS
from tests.view import chromium
from tests.view.browser import RIGHT, Browser

pytestmark = [
    pytest.mark.skipif(chromium.browser() is None, reason=chromium.HINT),
    pytest.mark.filterwarnings("ignore"),  # the websocket library's own
]
QUADRUPED = ROBOTS / "quadruped.urdf"


def coloured(picture: np.ndarray) -> int:
    """Pixels that are neither white nor grey: those of the robot, left of the controls."""
    scene = picture[:, : int(0.62 * picture.shape[1])]
    return int(np.count_nonzero(np.ptp(scene, axis=-1) > 60))


@pytest.fixture(scope="module")
def browser():
    with Browser() as b:
        yield b


def opened(browser: Browser, viewer) -> None:
    browser.open(viewer.url)
    browser.eventually(lambda: browser.evaluate("window.kinetree && kinetree.drawing.drawn !== undefined"))


def test_slider_moves_the_robot(browser):
    with kt.view(ROBOTS / "arm7.urdf", port=0) as viewer:
        opened(browser, viewer)
        sliders = browser.eventually(lambda: browser.find('#joints [role="slider"]'))
        assert len(sliders) == 7
        before = browser.picture_of_scene()
        browser.press(sliders[1], 100 * RIGHT)
        browser.eventually(lambda: viewer.q[1] > 0.5)
        browser.eventually(lambda: np.count_nonzero(np.abs(browser.picture_of_scene() - before).max(-1) > 40) > 2000)
        told = f"{sliders[1]}.parentElement.querySelector('output').textContent"
        browser.eventually(lambda: browser.evaluate(told) == f"{viewer.q[1]:.3f} rad")
        for k in (2, 3):  # The second moves while answers to the first are awaited: both arrive where they were put.
            browser.press(sliders[k], 60 * RIGHT)
        browser.eventually(lambda: min(viewer.q[2:4]) > 0.5)


def test_a_run_plays_at_once_and_follows_the_robot(browser):
    """A robot that runs away by ten times its size stays in the picture; many of them are drawn together."""
    model = kt.load(QUADRUPED, floating_base=True, ground=True)
    q = np.tile(kt.neutral(model), (30, 16, 1))
    q[..., 2] = 0.45
    q[..., 0] = np.linspace(0, 6, 30)[:, None]
    rates = np.zeros((30, 16, model.nv))
    run = kt.Trajectory(np.linspace(0, 60, 30), q, rates, rates)
    with kt.view(model, run, port=0) as viewer:
        opened(browser, viewer)
        browser.eventually(lambda: browser.evaluate("kinetree.time > 0.2"))
        browser.eventually(lambda: coloured(browser.picture()) > 500)
        start = coloured(browser.picture())
        browser.click("document.getElementById('play')")  # Pause: on a busy machine the run would begin anew meanwhile.
        browser.evaluate("kinetree.time = 58; 1")
        browser.eventually(lambda: browser.evaluate("kinetree.camera.target[0] > 5.5"))
        assert coloured(browser.picture()) > 0.5 * start
        far = browser.evaluate("kinetree.camera.distance")
        browser.evaluate("document.getElementById('world').value = 3; document.getElementById('world').onchange(); 1")
        assert browser.evaluate("kinetree.camera.distance") < 0.5 * far, "one of them is seen from nearer"
        browser.eventually(lambda: coloured(browser.picture()) > 0.5 * start)
        few_corners_look_the_same(browser)
        assert browser.evaluate("kinetree.playing") is False
        assert browser.evaluate("kinetree.time") == 58


def few_corners_look_the_same(browser: Browser) -> None:
    """Robots that are small on the screen are drawn as boxes and wedges: nearly the same pixels, for fewer corners."""
    browser.evaluate("document.getElementById('world').value = -1; document.getElementById('world').onchange(); 1")
    browser.evaluate("kinetree.camera.distance *= 2.6; 1")  # All 16 are small now, in windows of 550 to 700 pixels.
    size = "2 * kinetree.scene.single.radius / kinetree.look.pixel"
    browser.eventually(lambda: browser.evaluate(f"{size} < SMALL && {size} > 0.5 * SMALL"))
    corners = "kinetree.drawing.{}.reduce((n, b) => n + b.perWorld, 0)"
    coarse, fine = (browser.evaluate(corners.format(kind)) for kind in ("coarse", "fine"))
    assert coarse < 0.4 * fine
    boxes = browser.picture_of_scene()
    at_rest = "kinetree.drawing.still >= SHADOW_EVERY"
    browser.eventually(lambda: browser.evaluate(at_rest))  # What stands still is drawn no more.
    shown = browser.evaluate("kinetree.drawing.drawn")
    browser.evaluate("kinetree.drawing.coarse = kinetree.drawing.fine; kinetree.drawing.seen = null; 1")
    browser.eventually(lambda: browser.evaluate(f"kinetree.drawing.drawn > {shown} && {at_rest}"))
    assert browser.evaluate("kinetree.drawing.drawn") == shown + 4, "a frame, and those that shadows follow in"
    whole = browser.picture_of_scene()
    robots = coloured(whole)
    assert robots > 200
    assert abs(coloured(boxes) - robots) < 0.25 * robots
    changed = np.count_nonzero(np.abs(boxes - whole).max(-1) > 60)
    assert 0 < changed < 0.5 * robots


def test_long_lines_keep_branches_and_ends(browser):
    """Chords skip links shorter than a pixel, never a fork or an end."""
    browser.open("about:blank")
    with kt.view(ROBOTS / "arm7.urdf", port=0) as viewer:
        opened(browser, viewer)
        chain = "Detail.chords([-1, 0, 1, 2, 3, 4, 5, 6], i => [i, 0, 0], 2.5)"
        assert browser.evaluate(chain) == [3, 0, 6, 3, 7, 6]
        fork = "Detail.chords([-1, 0, 1, 2, 2, 3, 4], i => [i, 0, 0], 1e9)"
        assert browser.evaluate(fork) == [2, 0, 5, 2, 6, 2]
        assert len(browser.evaluate("Detail.chords([-1, 0, 1, 2], i => [i, 0, 0], 0.5)")) == 6, "all of them, from near"
        slow = "(kinetree.drawing.software = true, kinetree.drawing.keepUp(10, {}), kinetree.drawing.sharpness)"
        assert browser.evaluate(slow.format("true")) == pytest.approx(0.8), "fewer pixels while a slow renderer plays"
        assert browser.evaluate(slow.format("false")) == 1, "all of them where it stands still"


def test_a_long_chain_plays(browser):
    """10 000 bodies, from metres to kilometres: lines, played back."""
    model = kt.auto_tree(10_000, skew=np.pi / 2, taper=0.9995)
    angles = 0.02 * np.sin(np.linspace(0, 2 * np.pi, 20))[:, None] * np.ones(model.nv)
    run = kt.Trajectory(np.arange(20) * 0.1, angles, np.zeros_like(angles), np.zeros_like(angles))
    with kt.view(model, run, port=0) as viewer:
        opened(browser, viewer)
        browser.eventually(lambda: coloured(browser.picture()) > 50)
        first = browser.picture_of_scene()
        browser.eventually(lambda: np.abs(browser.picture_of_scene() - first).max() > 40)


def test_a_page_of_its_own_and_a_live_one(browser, tmp_path):
    model = kt.load(ROBOTS / "arm7.urdf").without_constraints
    with kt.view(model, port=0, live=True) as viewer:
        (tmp_path / "arm.html").write_text(viewer.html(), "utf-8")
        opened(browser, viewer)
        browser.eventually(lambda: browser.evaluate("kinetree.time > 0.1"))
        browser.drag((310, 300), (420, 300))
        browser.eventually(lambda: viewer.live.pushes > 0)
    browser.open((tmp_path / "arm.html").as_uri())
    browser.eventually(lambda: browser.evaluate("window.kinetree && kinetree.drawing.drawn !== undefined"))
    assert browser.evaluate("kinetree.source.served") is False

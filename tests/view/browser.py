"""A headless Chromium, spoken to in its DevTools protocol: as much of it as the tests need."""

import base64
import io
import json
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np

from tests.view import chromium

FLAGS = [
    "--headless=new",
    "--no-sandbox",
    "--no-zygote",
    "--no-first-run",
    "--disable-dev-shm-usage",
    "--use-gl=angle",
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
    "--window-size=900,700",
    "--remote-debugging-port=0",
]
RIGHT = ["ArrowRight"]
KEY_CODES = {"ArrowRight": 39}
TIMEOUT = 60.0  # seconds in which anything must have happened


class BrowserError(Exception):
    """What the browser answers when it can not, or can not yet."""


class Browser:
    """One window. Its elements are JavaScript expressions."""

    def __enter__(self) -> "Browser":
        from websockets.sync.client import connect

        self.profile = tempfile.TemporaryDirectory(prefix="kinetree-browser-", ignore_cleanup_errors=True)
        self.process = subprocess.Popen(
            [chromium.browser(), *FLAGS, f"--user-data-dir={self.profile.name}", "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=chromium.environment(),
        )
        port = Path(self.profile.name, "DevToolsActivePort")
        self.address = f"http://127.0.0.1:{self.eventually(port.read_text).split()[0]}"
        (page,) = self.eventually(lambda: [t for t in self._targets() if t["type"] == "page"])
        self.socket, self.calls = connect(page["webSocketDebuggerUrl"], max_size=None, proxy=None), 0
        return self

    def __exit__(self, *error: Any) -> None:
        self.socket.close()
        self.process.terminate()
        self.process.wait()
        self.profile.cleanup()

    def _targets(self) -> list[dict]:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(f"{self.address}/json/list") as answer:
            return json.load(answer)

    def _call(self, method: str, **parameters: Any) -> dict:
        self.calls += 1
        self.socket.send(json.dumps({"id": self.calls, "method": method, "params": parameters}))
        while (answer := json.loads(self.socket.recv(TIMEOUT))).get("id") != self.calls:
            pass  # an event
        if "error" in answer:
            raise BrowserError(f"{method}: {answer['error']}")
        return answer["result"]

    def evaluate(self, script: str) -> Any:
        """The value of a JavaScript expression."""
        answer = self._call("Runtime.evaluate", expression=script, returnByValue=True)
        if "exceptionDetails" in answer:
            raise BrowserError(f"{script}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def eventually(self, condition: Any, seconds: float = TIMEOUT) -> Any:
        """The condition's value, once it is true."""
        end, error = time.monotonic() + seconds, None
        while time.monotonic() < end:
            try:
                if value := condition():
                    return value
            except (OSError, BrowserError) as caught:
                error = caught
            time.sleep(0.1)
        raise TimeoutError(f"nothing happened: {error}")

    def open(self, url: str) -> None:
        self._call("Page.navigate", url=url)

    def find(self, selector: str) -> list[str]:
        """Elements for a CSS selector."""
        every = f"document.querySelectorAll({json.dumps(selector)})"
        return [f"{every}[{k}]" for k in range(self.evaluate(f"{every}.length"))]

    def press(self, element: str, keys: list[str]) -> None:
        """Key after key, on one element."""
        self.evaluate(f"{element}.focus()")
        for key in keys:
            for kind in ("keyDown", "keyUp"):
                code = KEY_CODES[key]
                self._call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code)

    def click(self, element: str) -> None:
        self.evaluate(f"{element}.click()")

    def drag(self, start: tuple[int, int], end: tuple[int, int]) -> None:
        """Press the mouse at one place, and move it to another in a few steps; it stays pressed."""
        for k, kind in enumerate(["mouseMoved", "mousePressed", *["mouseMoved"] * 4]):
            x, y = (a + (b - a) * max(0, k - 1) / 4 for a, b in zip(start, end, strict=True))
            self._call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=int(k > 0), clickCount=1)

    def picture_of_scene(self) -> np.ndarray:
        """The page without the controls on its right."""
        whole = self.picture()
        return whole[:, : int(0.65 * whole.shape[1])]

    def picture(self) -> np.ndarray:
        """The page as it looks, (height, width, 3)."""
        from PIL import Image

        data = base64.b64decode(self._call("Page.captureScreenshot", format="png")["data"])
        return np.asarray(Image.open(io.BytesIO(data)).convert("RGB")).astype(int)

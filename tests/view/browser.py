"""A headless Chromium, spoken to in the WebDriver protocol: as much of it as the tests need."""

import base64
import io
import json
import shutil
import socket
import subprocess
import time
import urllib.request
from typing import Any

import numpy as np

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
FLAGS = [
    "--headless=new",
    "--no-sandbox",
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
    "--window-size=900,700",
]


def available() -> bool:
    """Whether the browser and its driver are installed."""
    return all(map(shutil.which, ("chromium", "chromedriver")))


class Browser:
    """One window."""

    def __enter__(self) -> "Browser":
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.driver = subprocess.Popen(["chromedriver", f"--port={port}"], stdout=subprocess.DEVNULL)
        self.address = f"http://127.0.0.1:{port}"
        self.eventually(lambda: self._call("GET", "/status")["ready"])
        capabilities = {"alwaysMatch": {"goog:chromeOptions": {"args": FLAGS}}}
        self.address += f"/session/{self._call('POST', '/session', {'capabilities': capabilities})['sessionId']}"
        return self

    def __exit__(self, *error: Any) -> None:
        try:
            self._call("DELETE", "")
        finally:
            self.driver.terminate()
            self.driver.wait()

    def _call(self, method: str, path: str, body: dict | None = None) -> Any:
        data = None if method != "POST" else json.dumps(body or {}).encode()
        request = urllib.request.Request(self.address + path, data, {"Content-Type": "application/json"}, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)["value"]

    def eventually(self, condition: Any, seconds: float = 60) -> Any:
        """The condition's value, once it is true."""
        end, error = time.monotonic() + seconds, None
        while time.monotonic() < end:
            try:
                if value := condition():
                    return value
            except OSError as caught:
                error = caught
            time.sleep(0.1)
        raise TimeoutError(f"nothing happened: {error}")

    def open(self, url: str) -> None:
        self._call("POST", "/url", {"url": url})

    def find(self, selector: str) -> list[str]:
        """Elements for a CSS selector."""
        found = self._call("POST", "/elements", {"using": "css selector", "value": selector})
        return [e[ELEMENT] for e in found]

    def press(self, element: str, keys: str) -> None:
        self._call("POST", f"/element/{element}/value", {"text": keys})

    def click(self, element: str) -> None:
        self._call("POST", f"/element/{element}/click", {})

    def picture(self) -> np.ndarray:
        """The page as it looks, (height, width, 3)."""
        from PIL import Image

        data = base64.b64decode(self._call("GET", "/screenshot"))
        return np.asarray(Image.open(io.BytesIO(data)).convert("RGB")).astype(int)

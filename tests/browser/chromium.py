"""A headless Chromium driven over a pipe with the DevTools protocol: no port, no package, bounded in time."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--remote-debugging-pipe",
]
LIMIT_S = 30.0
CONTRAST = r"""
(() => {
  const rgb = c => { const m = c.match(/[\d.]+/g).map(Number); return m.length > 3 && m[3] === 0 ? null : m; };
  const linear = v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const lum = ([r, g, b]) => [r, g, b].map(v => linear(v / 255))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const ground = e => {
    for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor); if (c) return c; }
    return [255, 255, 255];
  };
  const bad = [];
  for (const e of document.querySelectorAll('h1,h2,p,td,th,dt,dd,li,a,caption,figcaption,summary,code,span,text')) {
    if (!e.textContent.trim() || e.closest('.sr') || e.closest('.skip')) continue;
    const style = getComputedStyle(e), ink = rgb(e.tagName === 'text' ? style.fill : style.color);
    const [a, b] = [lum(ink), lum(ground(e))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) bad.push([e.tagName, e.className, e.textContent.trim().slice(0, 30), ratio.toFixed(2)].join(' '));
  }
  return [...new Set(bad)];
})()
"""
"""JavaScript: every text whose contrast to its ground is below 4.5, in words."""


def binary() -> str | None:
    """Chromium's path; None where there is none."""
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Chromium:
    """One browser with one page. Records every request and everything that a console would show."""

    def __init__(self, profile: Path) -> None:
        program = binary()
        assert program is not None
        read_end, self._write = os.pipe()
        self._read, write_end = os.pipe()
        # Chromium reads commands from descriptor 3 and answers on 4; a shell puts them there.
        argv = ["bash", "-c", 'exec "$@" 3<&"$R2CC_IN" 4>&"$R2CC_OUT"', "bash", program, *FLAGS]
        env = {**os.environ, "R2CC_IN": str(read_end), "R2CC_OUT": str(write_end)}
        self._process = subprocess.Popen(
            [*argv, f"--user-data-dir={profile}", "about:blank"],
            env=env,
            pass_fds=(read_end, write_end),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(read_end)
        os.close(write_end)
        self._buffer = b""
        self._next = 0
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []
        self._attach()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the browser; kill it if it does not go by itself."""
        try:
            self.call("Browser.close", session=False)
        except (OSError, TimeoutError, EOFError):
            self._process.terminate()
        os.close(self._write)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(10)
        os.close(self._read)

    def call(self, method: str, *, session: bool = True, **params: Any) -> dict[str, Any]:
        """One command and its answer. Raises RuntimeError with the browser's message, TimeoutError, EOFError."""
        self._next += 1
        message = {"id": self._next, "method": method, "params": params}
        if session and self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + LIMIT_S
        while True:
            answer = self._receive(deadline)
            if answer.get("id") == self._next:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                result: dict[str, Any] = answer["result"]
                return result
            self.events.append(answer)

    def open(self, url: str) -> None:
        """Go to a page, forget what was seen before, and wait until it has loaded."""
        self.events.clear()
        self.call("Page.navigate", url=url)
        deadline = time.monotonic() + LIMIT_S
        while not any(e.get("method") == "Page.loadEventFired" for e in self.events):
            self.events.append(self._receive(deadline))

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression in the page."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(str(result["exceptionDetails"]))
        return result["result"].get("value")

    def resize(self, width: int, height: int, *, mobile: bool = False) -> None:
        """Give the page the size of a screen."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 2 if mobile else 1, "mobile": mobile}
        self.call("Emulation.setDeviceMetricsOverride", **metrics)

    def prefer(self, scheme: str) -> None:
        """Ask for the light or the dark theme."""
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def screenshot(self, path: Path, *, whole: bool = True) -> Path:
        """A picture of the page."""
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
        path.write_bytes(base64.b64decode(data))
        return path

    def pdf(self) -> bytes:
        """The page as it prints."""
        return base64.b64decode(self.call("Page.printToPDF", printBackground=False)["data"])

    def requests(self) -> list[str]:
        """Every address that the page asked for since it was opened."""
        return [e["params"]["request"]["url"] for e in self.events if e.get("method") == "Network.requestWillBeSent"]

    def complaints(self) -> list[str]:
        """Everything that a console would show: errors, warnings, exceptions, violations of the page's policy."""
        found = []
        for event in self.events:
            if event.get("method") == "Log.entryAdded":
                found.append(event["params"]["entry"]["text"])
            elif event.get("method") in ("Runtime.exceptionThrown", "Runtime.consoleAPICalled"):
                found.append(json.dumps(event["params"])[:500])
            elif event.get("method") == "Page.javascriptDialogOpening":
                found.append(f"dialog: {event['params'].get('message')}")
        return found

    def _attach(self) -> None:
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(t["targetId"] for t in targets if t["type"] == "page")
        self._session = self.call("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def _receive(self, deadline: float) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._read], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise TimeoutError(f"Chromium said nothing for {LIMIT_S:.0f} s")
            data = os.read(self._read, 1 << 20)
            if not data:
                raise EOFError("Chromium ended")
            self._buffer += data
        raw, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(raw)
        return message

"""One headless Chromium and its tabs, which are driven over the DevTools socket.

The socket's client, websocket-client, comes with JupyterLab. The browser resolves no foreign host:
a page that asks for one is found out.
"""

import base64
import contextlib
import itertools
import json
import os
import shutil
import subprocess
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import websocket

NAMES = ["chromium", "chromium-browser", "google-chrome", "chrome"]
NO_HOSTS = "MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 127.0.0.1"
FLAGS = [
    "--headless=new",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-gpu",
    "--disable-sync",
    "--force-color-profile=srgb",
    "--hide-scrollbars",
    f"--host-resolver-rules={NO_HOSTS}",
    "--no-first-run",
    "--remote-allow-origins=*",
    "--remote-debugging-port=0",
]
START_SECONDS = 60
PAGE_SECONDS = 60
CODES = {
    "ArrowUp": 38, "ArrowDown": 40, "ArrowLeft": 37, "ArrowRight": 39, "Home": 36, "End": 35,
    "PageUp": 33, "PageDown": 34, "Enter": 13, "Escape": 27, "Tab": 9, " ": 32,
}  # fmt: skip
WRITES = {"Enter": "\r", " ": " "}  # keys with a name that also write something


NO_CHROMIUM = (
    "No Chromium was found: install it (on Debian: apt install chromium), "
    "or name the program in the variable CHROMIUM."
)


class BrowserError(Exception):
    """The page, or Chromium itself, did not do what was asked."""


def find_chromium() -> str:
    """The program, by the variable CHROMIUM or under its usual names; BrowserError without one."""
    asked = os.environ.get("CHROMIUM")
    program = next(filter(None, map(shutil.which, [asked] if asked else NAMES)), None)
    if program is None:
        raise BrowserError(NO_CHROMIUM)
    return program


class Browser:
    """A context manager: leaving it ends the Chromium that it started."""

    def __init__(self, program: str):
        self.home = tempfile.mkdtemp(prefix="editions-")
        as_root = ["--no-sandbox"] if getattr(os, "geteuid", int)() == 0 else []
        command = [program, *FLAGS, *as_root, f"--user-data-dir={self.home}", "about:blank"]
        quiet = subprocess.DEVNULL
        self.process = subprocess.Popen(command, stdout=quiet, stderr=quiet)
        try:
            self.port = self._port()
        except BaseException:
            self.close()
            raise

    def _port(self) -> str:
        written = Path(self.home, "DevToolsActivePort")
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end:
            if written.exists() and "\n" in written.read_text():
                return written.read_text().split("\n")[0]
            if self.process.poll() is not None:
                raise BrowserError(f"Chromium ended with {self.process.returncode} at its start")
            time.sleep(0.05)
        raise BrowserError(f"Chromium did not start in {START_SECONDS} s")

    def tab(self) -> "Tab":
        address = f"http://127.0.0.1:{self.port}/json/new?about:blank"
        request = urllib.request.Request(address, method="PUT")
        with urllib.request.urlopen(request) as answer:
            return Tab(json.load(answer)["webSocketDebuggerUrl"])

    def opened_by(self, action: Callable[[], object]) -> "Tab":
        """The window that the page opens when `action()` is called."""
        before = self._windows()
        action()
        end = time.monotonic() + PAGE_SECONDS
        while time.monotonic() < end:
            new = self._windows() - before
            if new:
                return Tab(new.pop())
            time.sleep(0.05)
        raise BrowserError(f"no window was opened in {PAGE_SECONDS} s")

    def _windows(self) -> set[str]:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/json/list") as answer:
            targets = json.load(answer)
        return {each["webSocketDebuggerUrl"] for each in targets if each["type"] == "page"}

    def map(self, visit: Callable, things: Iterable, tabs: int = 2) -> list:
        """[visit(tab, thing) for each thing], several tabs at a time."""
        mine = threading.local()
        opened = []

        def start():
            mine.tab = self.tab()
            opened.append(mine.tab)

        try:
            with ThreadPoolExecutor(tabs, initializer=start) as pool:
                return list(pool.map(lambda thing: visit(mine.tab, thing), things))
        finally:
            for tab in opened:
                tab.close()

    def close(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.home, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Tab:
    """A page of its own. It keeps what went wrong on the page, and what was asked for."""

    def __init__(self, address: str):
        self.socket = websocket.create_connection(address, timeout=PAGE_SECONDS)
        self.numbers = itertools.count(1)
        self.pressed = False
        self._forget()
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.send(f"{domain}.enable")
        self.send("Emulation.setFocusEmulationEnabled", enabled=True)

    def _forget(self):
        self.errors = []
        self.requests = []
        self.kilobytes = 0.0

    def send(self, method: str, **parameters) -> dict:
        """A command of the DevTools protocol; returns its result."""
        number = next(self.numbers)
        command = {"id": number, "method": method, "params": parameters}
        self.socket.send(json.dumps(command))
        while True:
            message = json.loads(self.socket.recv())
            if message.get("id") != number:
                self._event(message)
            elif "error" in message:
                raise BrowserError(f"{method}: {message['error']['message']}")
            else:
                return message["result"]

    def _event(self, message: dict) -> None:
        kind = message.get("method")
        about = message.get("params", {})
        if kind == "Runtime.exceptionThrown":
            details = about["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description", details["text"]))
        elif kind == "Runtime.consoleAPICalled" and about["type"] in ("error", "warning"):
            words = [str(part.get("value", part.get("description"))) for part in about["args"]]
            self.errors.append(" ".join(words))
        elif kind == "Log.entryAdded" and about["entry"]["level"] == "error":
            self.errors.append(f"{about['entry']['text']} {about['entry'].get('url', '')}")
        elif kind == "Network.requestWillBeSent":
            self.requests.append(about["request"]["url"])
        elif kind == "Network.loadingFinished":
            self.kilobytes += about["encodedDataLength"] / 1000

    def run(self, script: str):
        """The value of a JavaScript expression; a promise is waited for."""
        asked = {"expression": script, "awaitPromise": True, "returnByValue": True}
        answer = self.send("Runtime.evaluate", **asked)
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise BrowserError(details.get("exception", {}).get("description", details["text"]))
        return answer["result"].get("value")

    def wait(self, condition: str, seconds: float = PAGE_SECONDS) -> None:
        """Until a JavaScript expression is true."""
        end = time.monotonic() + seconds
        while not self.run(condition):
            if time.monotonic() > end:
                raise BrowserError(f"not true after {seconds:g} s: {condition}")
            time.sleep(0.03)

    def open(self, address: str, ready: str = "document.readyState === 'complete'") -> "Tab":
        self.send("Page.navigate", url="about:blank")
        self.wait("location.href === 'about:blank'")
        self._forget()
        answer = self.send("Page.navigate", url=address)
        if "errorText" in answer:
            raise BrowserError(f"{address}: {answer['errorText']}")
        self.wait(f"location.href !== 'about:blank' && ({ready})")
        return self

    def size(self, width: int, height: int, phone: bool = False, scale: float = 1) -> "Tab":
        size = {"width": width, "height": height, "deviceScaleFactor": scale, "mobile": phone}
        self.send("Emulation.setDeviceMetricsOverride", **size)
        return self

    def media(self, kind: str = "", **features: str) -> "Tab":
        """`media("print")`, or `media(prefers_color_scheme="dark")`."""
        wanted = [{"name": n.replace("_", "-"), "value": v} for n, v in features.items()]
        self.send("Emulation.setEmulatedMedia", media=kind, features=wanted)
        return self

    def mouse(self, kind: str, x: float, y: float) -> None:
        """`kind`: move, press, release; a pressed button stays pressed while it moves."""
        name = {"move": "mouseMoved", "press": "mousePressed", "release": "mouseReleased"}[kind]
        if kind != "move":
            self.pressed = kind == "press"
        button = "none" if kind == "move" and not self.pressed else "left"
        about = {"type": name, "x": x, "y": y, "button": button, "clickCount": int(kind != "move")}
        self.send("Input.dispatchMouseEvent", buttons=int(self.pressed), **about)

    def key(self, key: str, shift: bool = False) -> None:
        code = CODES.get(key, ord(key[0].upper()))
        about = {"key": key, "code": key, "windowsVirtualKeyCode": code, "modifiers": 8 * shift}
        text = key if len(key) == 1 else WRITES.get(key, "")
        self.send("Input.dispatchKeyEvent", type="keyDown", text=text, **about)
        self.send("Input.dispatchKeyEvent", type="keyUp", **about)

    def pdf(self, path: Path) -> None:
        answer = self.send("Page.printToPDF", printBackground=True, preferCSSPageSize=True)
        Path(path).write_bytes(base64.b64decode(answer["data"]))

    def outgoing(self) -> list[str]:
        """The requests that would leave this machine."""
        here = ("file:", "data:", "blob:", "about:", "http://127.0.0.1", "http://localhost")
        return [address for address in self.requests if not address.startswith(here)]

    def close(self) -> None:
        gone = (BrowserError, websocket.WebSocketException, OSError)  # before it could answer
        with contextlib.suppress(*gone):
            self.send("Page.close")
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

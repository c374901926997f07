"""A page in headless Chromium, driven over its debugging pipe."""
import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

from program import SANITIZED

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
PATIENCE_S = 300 if SANITIZED else 60


def pipe_ends():
    """Of a pipe, to read and to write; neither is one of the numbers that Chromium wants."""
    ends = []
    for end in os.pipe():
        ends.append(fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 30))
        os.close(end)
    return ends


class Browser:
    """One page of `width` CSS pixels. `complaints` has what its console and its policy said."""

    def __init__(self, width=1400, height=1000, dark=False):
        self.profile = tempfile.TemporaryDirectory()
        commands, self.commands = pipe_ends()
        self.answers, answers = pipe_ends()
        self.process = subprocess.Popen(
            ["bash", "-c", f'exec "$0" "$@" 3<&{commands} 4>&{answers}', CHROMIUM,
             "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
             "--no-first-run", "--hide-scrollbars", "--remote-debugging-pipe",
             f"--user-data-dir={self.profile.name}"],
            pass_fds=(commands, answers), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)
        os.close(commands)
        os.close(answers)
        self.rest = b""
        self.last = 0
        self.session = None
        self.complaints = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(domain + ".enable")
        self.resize(width, height)
        self.call("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        os.close(self.commands)
        os.close(self.answers)
        # Its children may still write for a moment.
        shutil.rmtree(self.profile.name, ignore_errors=True)
        self.profile.cleanup()

    def call(self, method, **parameters):
        self.last += 1
        message = {"id": self.last, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.read()
            if answer.get("id") == self.last:
                assert "error" not in answer, (method, answer["error"])
                return answer["result"]
            self.note(answer)

    def read(self):
        limit = time.monotonic() + PATIENCE_S
        while b"\0" not in self.rest:
            ready, _, _ = select.select([self.answers], [], [], max(0, limit - time.monotonic()))
            assert ready, "the browser is silent"
            piece = os.read(self.answers, 1 << 20)
            assert piece, "the browser has ended"
            self.rest += piece
        message, self.rest = self.rest.split(b"\0", 1)
        return json.loads(message)

    def note(self, event):
        about = event.get("params", {})
        if event.get("method") == "Runtime.exceptionThrown":
            self.complaints.append(about["exceptionDetails"].get("exception", {}).get("description", "?"))
        if event.get("method") == "Log.entryAdded" and about["entry"]["level"] in ("error", "warning"):
            self.complaints.append(about["entry"]["text"])
        if event.get("method") == "Runtime.consoleAPICalled" and about["type"] in ("error", "warning"):
            self.complaints.append(str(about["args"]))

    def open(self, url):
        self.call("Page.navigate", url=url)
        self.wait_for("document.readyState === 'complete' && location.href !== 'about:blank'")

    def resize(self, width, height):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=False)

    def get(self, expression):
        """The value of a JavaScript expression, promises awaited."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True,
                           awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait_for(self, expression):
        limit = time.monotonic() + PATIENCE_S
        while not self.get(expression):
            assert time.monotonic() < limit, (
                expression, self.complaints, self.get("document.activeElement.outerHTML.slice(0, 200)"))
            time.sleep(0.03)

    def place_of(self, selector):
        x, y = self.get(f"""(() => {{
            const element = document.querySelector({json.dumps(selector)});
            element.scrollIntoView({{block: "center"}});
            const box = element.getBoundingClientRect();
            return [box.x + box.width / 2, box.y + box.height / 2];
        }})()""")
        return x, y

    def click(self, selector):
        """With the mouse, where the element is once it moves no more."""
        limit = time.monotonic() + PATIENCE_S
        before, place = None, self.place_of(selector)
        while place != before:
            assert time.monotonic() < limit, f"{selector} does not come to rest"
            time.sleep(0.05)
            before, place = place, self.place_of(selector)
        x, y = place
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def type(self, text):
        self.call("Input.insertText", text=text)

    def press(self, key, code=0, text=""):
        about = {"key": key, "code": key, "windowsVirtualKeyCode": code}
        self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **about)
        self.call("Input.dispatchKeyEvent", type="keyUp", **about)

    def screenshot(self, path, whole=False):
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))

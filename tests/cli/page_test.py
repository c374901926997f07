"""The page of `tenon serve` in headless Chromium, against a real server."""
import os
import pathlib
import unittest

from browser import CHROMIUM, Browser
from program import settings
from serve_models_test import LITTLE, Desk, entry
from serve_service_test import keys_file
from server import Server

HOSTILE = "<img src=x onerror=\"document.title='broken'\"><script>document.title='broken'</script>"
# The texts and the backgrounds on which they stand, as the style sheet names them.
PAIRS = (("ink", "card"), ("ink", "paper"), ("soft", "card"), ("soft", "paper"), ("ink", "sunk"),
         ("on-wood", "wood"), ("on-kind", "prefill"), ("rejected", "card"), ("decode", "card"))
CONTRAST = """(() => {
    const pen = document.createElement("canvas").getContext("2d");
    const light = (name) => {
        pen.fillStyle = getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
        const parts = pen.fillStyle.match(/[0-9a-f]{2}/g).map((hex) => parseInt(hex, 16) / 255)
            .map((value) => value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
    };
    return %s.map(([text, ground]) => {
        const [low, high] = [light(text), light(ground)].sort((a, b) => a - b);
        return (high + 0.05) / (low + 0.05);
    });
})()"""
UNNAMED = """[...document.querySelectorAll("button, input, select, textarea, canvas, summary")]
    .filter((element) => !element.labels?.length && !element.getAttribute("aria-label") &&
                         !element.getAttribute("aria-labelledby") && !element.textContent.trim())
    .map((element) => element.outerHTML)"""


def open_page(server, **keywords):
    browser = Browser(**keywords)
    browser.open(f"http://127.0.0.1:{server.port}/")
    return browser


def ask(browser, text):
    browser.click("#prompt")
    browser.wait_for("document.activeElement.id === 'prompt'")
    browser.type(text)
    browser.press("Enter", 13, "\r")


def wait_for_end(browser):
    browser.wait_for("document.querySelector('.turn .foot') !== null && !document.querySelector('.turn.busy')")


def choose(browser, mode):
    browser.get(f"document.querySelector('input[value={mode}]').click()")


def set_field(browser, name, value):
    browser.get(f"document.querySelector('[name={name}]').value = '{value}'")


def answer_of(browser):
    return browser.get("[...document.querySelectorAll('.turn.model .said-text')].at(-1).textContent")


@unittest.skipUnless(CHROMIUM, "there is no chromium here")
class PageInABrowser(unittest.TestCase):
    def setUp(self):
        self.browsers = []

    def page(self, server, **keywords):
        browser = open_page(server, **keywords)
        self.addCleanup(browser.__exit__)
        self.browsers.append(browser)
        browser.wait_for("document.querySelector('#model').value === 'tale'")
        return browser

    def tearDown(self):
        for browser in self.browsers:
            self.assertEqual(browser.complaints, [])

    def test_a_chat_is_answered_as_the_api_answers_it(self):
        with Server() as server:
            browser = self.page(server)
            set_field(browser, "max_tokens", 24)
            set_field(browser, "seed", 5)
            ask(browser, "Once upon a time")
            wait_for_end(browser)
            messages = [{"role": "user", "content": "Once upon a time"}]
            first = server.post("/v1/chat/completions", {"messages": messages, "max_tokens": 24, "seed": 5})
            text = first[2]["choices"][0]["message"]["content"]
            self.assertEqual(answer_of(browser), text)
            self.assertIn(f"{first[2]['usage']['completion_tokens']} tokens",
                          browser.get("document.querySelector('.foot').textContent"))
            ask(browser, "And then?")
            browser.wait_for("document.querySelectorAll('.turn .foot').length === 2")
            messages += [{"role": "assistant", "content": text}, {"role": "user", "content": "And then?"}]
            second = server.post("/v1/chat/completions", {"messages": messages, "max_tokens": 24, "seed": 5})
            self.assertEqual(answer_of(browser), second[2]["choices"][0]["message"]["content"])

    def test_a_completion_shows_probabilities_and_what_else_it_could_have_been(self):
        with Server() as server:
            browser = self.page(server)
            choose(browser, "completion")
            set_field(browser, "max_tokens", 12)
            browser.click("#logprobs")
            ask(browser, "The old witch")
            wait_for_end(browser)
            answer = server.post("/v1/completions", {"prompt": "The old witch", "max_tokens": 12, "logprobs": 5})[2]
            choice = answer["choices"][0]
            self.assertEqual(answer_of(browser), "The old witch" + choice["text"])
            self.assertEqual(browser.get("[...document.querySelectorAll('.token')].map((one) => one.textContent)"),
                             choice["logprobs"]["tokens"])
            self.assertTrue(browser.get("document.querySelector('#tip').hidden"))
            browser.get("document.querySelector('.token').focus()")
            browser.press("ArrowRight", 39)
            self.assertEqual(browser.get("[...document.querySelectorAll('.token')].indexOf(document.activeElement)"), 1)
            self.assertFalse(browser.get("document.querySelector('#tip').hidden"))
            self.assertGreaterEqual(browser.get("document.querySelectorAll('#tip tr').length"), 5)
            browser.press("Escape", 27)
            self.assertTrue(browser.get("document.querySelector('#tip').hidden"))

    def test_texts_never_become_markup(self):
        with Server() as server:
            browser = self.page(server)
            ask(browser, HOSTILE)
            wait_for_end(browser)
            choose(browser, "completion")
            ask(browser, HOSTILE)
            wait_for_end(browser)
            self.assertTrue(answer_of(browser).startswith(HOSTILE))
            self.assertEqual(browser.get("document.querySelectorAll('#log img, #log script').length"), 0)
            self.assertEqual(browser.get("document.title"), "Tenon")

    def test_an_answer_can_be_stopped(self):
        with Server() as server:
            browser = self.page(server)
            set_field(browser, "max_tokens", 1900)
            choose(browser, "completion")
            ask(browser, "The old witch")
            browser.wait_for("document.querySelector('.turn .said-text')?.textContent.length > 40")
            browser.click("#stop")
            wait_for_end(browser)
            self.assertEqual(browser.get("document.querySelector('.foot').textContent"), "stopped")
            self.assertTrue(browser.get("document.querySelector('#stop').disabled"))
            server.wait_for('vllm:request_success_total{model_name="tale",finished_reason="abort"} 1')

    def test_who_asks_sees_the_answer_wherever_they_had_read(self):
        with Server() as server:
            browser = self.page(server)
            set_field(browser, "max_tokens", 400)
            ask(browser, "Once upon a time")
            wait_for_end(browser)
            browser.get("document.querySelector('#log').scrollTop = 0")
            set_field(browser, "max_tokens", 40)
            ask(browser, "The old witch")
            browser.wait_for("document.querySelectorAll('.turn.model .foot').length === 2")
            below = "(() => { const box = document.querySelector('#log');" \
                    "return box.scrollHeight - box.scrollTop - box.clientHeight; })()"
            self.assertLess(browser.get(below), 40)

    def test_what_was_cleared_while_it_was_answered_is_forgotten(self):
        with Server(template="{% for message in messages %}{{ message.content }}|{% endfor %}") as server:
            browser = self.page(server)
            set_field(browser, "max_tokens", 2000)
            ask(browser, "Once upon a time")
            browser.wait_for("document.querySelector('.turn.model .said-text')?.textContent.length > 20")
            browser.click("#clear")
            browser.wait_for("document.querySelector('#stop').disabled")
            set_field(browser, "max_tokens", 16)
            ask(browser, "The old witch")
            wait_for_end(browser)
            body = {"messages": [{"role": "user", "content": "The old witch"}], "max_tokens": 16}
            alone = server.post("/v1/chat/completions", body)[2]["choices"][0]["message"]["content"]
            self.assertEqual(answer_of(browser), alone)

    def test_what_the_server_refuses_is_said(self):
        with Server() as server:
            browser = self.page(server)
            choose(browser, "completion")
            ask(browser, "word " * 5000)
            browser.wait_for("document.querySelector('.turn.fault') !== null")
            self.assertIn("2048", browser.get("document.querySelector('.turn.fault').textContent"))
            self.assertEqual(browser.get("document.querySelector('.turn.fault').getAttribute('role')"), "alert")
            browser.complaints = [text for text in browser.complaints if "400 (Bad Request)" not in text]

    def test_the_engine_is_shown_step_by_step(self):
        with Server(*settings(kv_cache__plugin="prefix")) as server:
            browser = self.page(server)
            browser.wait_for("document.querySelector('#feed-state').dataset.state === 'on'")
            browser.get("document.querySelector('#speed').value = '0'")
            browser.get("document.querySelector('.table-box').open = true")
            set_field(browser, "max_tokens", 20)
            ask(browser, "Once upon a time")
            wait_for_end(browser)
            browser.wait_for("document.querySelector('#story').textContent.includes('ended')")
            last = browser.get("document.querySelector('#batch').getAttribute('aria-label')")
            self.assertRegex(last, r"^Step \d+: 0 prompt tokens, 1 answer token, 0 of 0 drafts kept$")
            self.assertRegex(browser.get("document.querySelector('#kv').textContent"), r"^held[1-9]")
            self.assertEqual(browser.get("document.querySelector('#rows tr').cells[1].textContent"), "ended")
            while not browser.get("document.querySelector('#back').disabled"):
                browser.click("#back")
            browser.wait_for("document.querySelector('#story').textContent.includes('whole prompt')")
            self.assertEqual(browser.get("document.querySelector('#pause').textContent"), "Play")
            browser.get("document.querySelector('#blocks').focus()")
            browser.press("ArrowRight", 39)
            browser.wait_for("document.querySelector('#block-said').textContent.startsWith('Block 0: held by #1')")
            browser.get("document.querySelector('#scrub').focus()")
            browser.press("ArrowRight", 39)
            browser.wait_for("document.querySelector('#story').textContent.includes('goes on by one token')")
            browser.click("#newest")
            browser.wait_for(f"document.querySelector('#batch').getAttribute('aria-label') === '{last}'")

    def test_traffic_shows_sharing_and_ends(self):
        with Server(*settings(kv_cache__plugin="prefix", limits__max_sequences=4)) as server:
            browser = self.page(server)
            browser.wait_for("document.querySelector('#feed-state').dataset.state === 'on'")
            browser.get("document.querySelector('#speed').value = '0'")
            browser.click("#traffic")
            browser.wait_for("/of them shared[1-9]/.test(document.querySelector('#kv').textContent)")
            browser.wait_for("document.querySelector('#queue .tag') !== null")
            browser.click("#traffic")
            server.wait_for('vllm:num_requests_running{model_name="tale"} 0')

    def test_two_models_answer_side_by_side_and_one_is_loaded_for_it(self):
        with Desk(entry("tale") + entry("other", more=LITTLE + 'kv_cache.dtype = "i8"\n')) as desk:
            browser = self.page(desk)
            self.assertFalse(browser.get("document.querySelector('#second-choice').hidden"))
            self.assertIn("other (unloaded)", browser.get("document.querySelector('#second').textContent"))
            browser.get("(() => { const choice = document.querySelector('#second'); choice.value = 'other';"
                        "choice.dispatchEvent(new Event('change')); })()")
            set_field(browser, "max_tokens", 16)
            set_field(browser, "seed", 5)
            ask(browser, "Once upon a time")
            browser.wait_for("document.querySelectorAll('.turn .foot').length === 2")
            browser.wait_for("document.querySelector('#verdict').textContent !== ''")
            texts = browser.get("[...document.querySelectorAll('.turn.model .said-text')].map((one) => one.textContent)")
            for name, text in zip(("tale", "other"), texts, strict=True):
                body = {"model": name, "messages": [{"role": "user", "content": "Once upon a time"}], "max_tokens": 16, "seed": 5}
                self.assertEqual(text, desk.post("/v1/chat/completions", body)[2]["choices"][0]["message"]["content"])
            said = browser.get("document.querySelector('#verdict').textContent")
            self.assertEqual(said.startswith("Both answers are the same"), texts[0] == texts[1], said)
            browser.wait_for("!document.querySelector('#second').textContent.includes('unloaded')")

    def test_a_key_is_asked_for_and_kept_in_the_tab(self):
        with Server() as other:
            file = keys_file(other.path("keys"), alice=("secret-a", ""))
            with Server("--keys", file) as server:
                browser = open_page(server)
                self.addCleanup(browser.__exit__)
                browser.wait_for("document.querySelector('#key-box').open")
                browser.wait_for("document.activeElement.id === 'key'")
                browser.type("secret-a")
                browser.press("Enter", 13, "\r")
                browser.wait_for("document.querySelector('#model').value === 'tale'")
                browser.wait_for("document.querySelector('#feed-state').dataset.state === 'on'")
                self.assertEqual(browser.get("Object.values(sessionStorage)"), ["secret-a"])
                self.assertEqual(browser.get("localStorage.length + document.cookie.length"), 0)

    def test_it_fits_narrow_and_wide_in_light_and_dark(self):
        shots = os.environ.get("TENON_PAGE_SHOTS", "")
        with Server() as server:
            for width in (390, 1400):
                for dark in (False, True):
                    with self.subTest(width=width, dark=dark):
                        browser = self.page(server, width=width, dark=dark)
                        set_field(browser, "max_tokens", 20)
                        ask(browser, "Once upon a time")
                        wait_for_end(browser)
                        browser.get("document.querySelectorAll('#live details').forEach((box) => { box.open = true; })")
                        for pane in ("play", "live"):
                            browser.get(f"document.querySelector('#show-{pane}').click()")
                            self.assertLessEqual(browser.get("document.documentElement.scrollWidth"), width)
                            if shots:
                                name = f"{width}-{'dark' if dark else 'light'}-{pane}.png"
                                browser.screenshot(pathlib.Path(shots) / name)
                        pairs = str([list(pair) for pair in PAIRS])
                        for pair, contrast in zip(PAIRS, browser.get(CONTRAST % pairs)):
                            self.assertGreaterEqual(contrast, 4.5, pair)

    def test_everything_that_can_be_used_has_a_name(self):
        with Server() as server:
            browser = self.page(server)
            self.assertEqual(browser.get(UNNAMED), [])
            self.assertEqual(browser.get("document.documentElement.lang"), "en")


if __name__ == "__main__":
    unittest.main()

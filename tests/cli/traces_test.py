"""`tenon serve --otlp-traces-endpoint`: what a collector is sent."""
import http.server
import json
import threading
import time
import unittest

from program import run
from server import PATIENCE, Server

PROMPT = {"prompt": "The old witch", "max_tokens": 4, "seed": 1, "ignore_eos": True}
TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


class Collector:
    """Takes what is posted to it; the first `later` times it says that it cannot yet."""

    def __init__(self, later=0):
        self.bodies, self.paths, self.later = [], [], later
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                busy = outer.later > 0
                outer.later -= busy
                if not busy:
                    outer.paths.append(self.path)
                    outer.bodies.append(json.loads(body))
                self.send_response(503 if busy else 200)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def spans(self, count):
        """So many of them, once they are there."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            spans = [span for body in list(self.bodies)
                     for span in body["resourceSpans"][0]["scopeSpans"][0]["spans"]]
            if len(spans) >= count:
                return spans
            time.sleep(0.02)
        raise AssertionError(f"{len(spans)} spans came, not {count}")

    def close(self):
        self.server.shutdown()
        self.server.server_close()


def value_of(span, key):
    for attribute in span["attributes"]:
        if attribute["key"] == key:
            return next(iter(attribute["value"].values()))
    return None


class Traces(unittest.TestCase):
    def collector(self, **settings):
        collector = Collector(**settings)
        self.addCleanup(collector.close)
        return collector

    def test_a_request_is_a_span_with_the_phases_of_its_answers_below(self):
        collector = self.collector()
        with Server("--otlp-traces-endpoint", collector.url, "--otlp-service-name", "tales") as server:
            begun = time.time_ns()
            status = server.post("/v1/completions", PROMPT | {"n": 2},
                                 headers={"traceparent": f"00-{TRACE}-{PARENT}-01",
                                          "tracestate": "a=b"})[0]
            self.assertEqual(status, 200)
            spans = collector.spans(7)
            ended = time.time_ns()
        self.assertEqual(collector.paths[0], "/v1/traces")
        resource = collector.bodies[0]["resourceSpans"][0]["resource"]
        self.assertIn({"key": "service.name", "value": {"stringValue": "tales"}},
                      resource["attributes"])
        self.assertEqual({span["traceId"] for span in spans}, {TRACE})
        self.assertEqual({span["traceState"] for span in spans}, {"a=b"})
        self.assertEqual(len({span["spanId"] for span in spans}), 7)
        whole = spans[-1]
        self.assertEqual((whole["name"], whole["parentSpanId"], whole["kind"]),
                         ("POST /v1/completions", PARENT, 2))
        self.assertEqual(value_of(whole, "gen_ai.usage.output_tokens"), "8")
        self.assertEqual(value_of(whole, "http.response.status_code"), "200")
        for sample in "01":
            own = [span for span in spans[:-1] if value_of(span, "tenon.sample") == sample]
            self.assertEqual([span["name"] for span in own], ["queue", "prefill", "decode"])
            times = [int(span[edge]) for span in own
                     for edge in ("startTimeUnixNano", "endTimeUnixNano")]
            self.assertEqual(times, sorted(times))
            self.assertEqual(times[1:5:2], times[2:6:2])
            # The clocks of the engine and of the day are read one after the other.
            slack = 50_000_000
            self.assertGreaterEqual(times[0], begun - slack)
            self.assertLessEqual(times[-1], ended + slack)
            self.assertEqual({span["parentSpanId"] for span in own}, {whole["spanId"]})
            self.assertEqual(value_of(own[-1], "tenon.finish_reason"), "length")
            self.assertEqual(value_of(own[-1], "tenon.tokens"), "4")

    def test_senders_decide_and_others_by_the_share(self):
        collector = self.collector()
        with Server("--otlp-traces-endpoint", f"{collector.url}/v1/traces", "--trace-share",
                    0) as server:
            for headers in ({}, {"traceparent": f"00-{TRACE}-{PARENT}-00"}, {"traceparent": "none"}):
                self.assertEqual(server.post("/v1/completions", PROMPT, headers=headers)[0], 200)
            server.post("/v1/completions", PROMPT,
                        headers={"traceparent": f"00-{TRACE}-{PARENT}-01"})
            self.assertEqual(len(collector.spans(4)), 4)
            self.assertEqual(server.end()[0], 0)
        self.assertEqual(len(collector.spans(4)), 4)

    def test_what_is_refused_is_a_span_too_and_health_is_none(self):
        collector = self.collector()
        with Server("--otlp-traces-endpoint", collector.url) as server:
            server.get("/health")
            self.assertEqual(server.post("/v1/completions", {"prompt": "a", "model": "b"})[0], 404)
            spans = collector.spans(1)
            self.assertEqual(server.end()[0], 0)
        self.assertEqual(len(collector.spans(1)), 1)
        self.assertEqual(value_of(spans[0], "http.response.status_code"), "404")

    def test_a_collector_that_is_busy_is_asked_again_and_one_that_is_away_harms_nobody(self):
        collector = self.collector(later=1)
        with Server("--otlp-traces-endpoint", collector.url) as server:
            server.post("/v1/completions", PROMPT)
            self.assertEqual(len(collector.spans(4)), 4)
            server.wait_for('tenon:trace_spans_total{delivery="sent"} 4')
            collector.close()
            self.assertEqual(server.post("/v1/completions", PROMPT)[0], 200)
            self.assertEqual(server.end()[0], 0)

    def test_what_is_no_address_is_refused(self):
        done = run("serve", "--port", 0, "--otlp-traces-endpoint", "collector:4318")
        self.assertEqual(done.returncode, 1)
        self.assertIn("--otlp-traces-endpoint", done.stderr)


if __name__ == "__main__":
    unittest.main()

// Made-up requests, so that there is something to see: short and long ones, some that begin alike,
// some with several answers.

const trafficBegins = [
  "Once upon a time, in a village by the sea, there lived",
  "The king looked out of his window and saw",
  "A fox met a hare on the road. \"Where are you going?\" said the fox.",
  "The old witch",
  "Far away, where the swallows fly when we have winter, there was a king who had eleven sons. ",
];
const trafficLong = "There was once a miller who had three sons, a mill, a donkey and a cat. ".repeat(6);

const traffic = {
  line: null,

  body() {
    const pick = (list) => list[Math.floor(Math.random() * list.length)];
    const isLong = Math.random() < 0.35;
    const prompt = (isLong ? trafficLong : "") + pick(trafficBegins);
    return { model: $("model").value, prompt, stream: true, ignore_eos: true, temperature: 1,
             max_tokens: 8 + Math.floor(Math.random() ** 2 * 90), n: Math.random() < 0.2 ? 3 : 1,
             seed: Math.floor(Math.random() * 1e9) };
  },

  async worker(signal) {
    while (!signal.aborted) {
      const response = await ask("/v1/completions", { body: this.body(), signal });
      await readEvents(response, () => {});
      await new Promise((done) => setTimeout(done, 20 + Math.random() * 250));
    }
  },

  async start() {
    const line = new AbortController();
    this.line = line;
    this.show();
    try {
      await Promise.all(Array.from({ length: 7 }, () => this.worker(line.signal)));
    } catch (problem) {
      if (!line.signal.aborted) log.fault(`Traffic ended: ${problem.message}`);
      line.abort();
    }
    if (this.line === line) this.stop();
  },

  stop() {
    this.line?.abort();
    this.line = null;
    this.show();
  },

  show() {
    $("traffic").setAttribute("aria-pressed", String(this.line !== null));
    $("traffic").textContent = this.line ? "Stop traffic" : "Make traffic";
  },
};

$("traffic").addEventListener("click", () => (traffic.line ? traffic.stop() : traffic.start()));
document.addEventListener("visibilitychange", () => document.hidden && traffic.stop());

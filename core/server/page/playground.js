// The playground: what is asked for, and the answers as they come, of one model or of two side by
// side.

// A model that is asked, and the conversation with it.
class Side {
  constructor(log, choice) {
    this.log = log;
    this.choice = choice;   // the id of what chooses its model
    this.messages = [];     // of the chat so far
    this.text = null;       // of its latest answer, once that is complete
  }

  get model() { return $(this.choice).value; }

  request(text) {
    const body = { model: this.model, ...talk.settings() };
    const shows = $("logprobs").checked;
    if (talk.mode === "completion") {
      body.prompt = text;
      if (shows) body.logprobs = 5;
      return ["/v1/completions", body];
    }
    const system = $("settings").querySelector('[name="system"]').value;
    body.messages = [...(system ? [{ role: "system", content: system }] : []), ...this.messages, { role: "user", content: text }];
    if (shows) Object.assign(body, { logprobs: true, top_logprobs: 5 });
    return ["/v1/chat/completions", body];
  }

  async send(text, signal) {
    const [path, body] = this.request(text);
    const messages = this.messages;  // of this conversation, even where another one begins meanwhile
    const isChat = talk.mode === "chat";
    this.text = null;
    this.log.toEnd();  // who asks wants to see the answer
    if (isChat) this.log.add("user", "You", text);
    const note = isLoaded(body.model) ? "" : "The model is being loaded …";
    const answers = new Map();
    const of = (index) => {
      if (!answers.has(index)) {
        const number = (body.n ?? 1) > 1 ? ` · answer ${index + 1}` : "";
        answers.set(index, new Answer(this.log, body.model + number, isChat ? "" : text, index === 0 ? note : ""));
      }
      return answers.get(index);
    };
    const time = { begin: performance.now(), first: 0, end: 0 };
    let usage = null, problem = null;
    try {
      of(0);
      const response = await ask(path, { body, signal });
      if (note) refreshModels();
      await readEvents(response, (event) => {
        if (event.data === "[DONE]") return;
        const data = JSON.parse(event.data);
        if (data.error) throw new Error(data.error.message);
        usage = data.usage ?? usage;
        for (const choice of data.choices ?? []) {
          if (!time.first && (choice.text || choice.delta?.content || thoughtOfChoice(choice))) time.first = performance.now();
          of(choice.index).take(choice);
        }
      });
      if (!usage) throw new Error("The answer broke off.");
    } catch (fault) {
      problem = signal.aborted ? "stopped" : fault.message;
    }
    time.end = performance.now();
    this.finish(text, isChat ? messages : null, answers, { time, usage, problem });
  }

  finish(text, messages, answers, { time, usage, problem }) {
    const all = [...answers.values()];
    const stopped = problem === "stopped";
    for (const answer of all) {
      const isEmpty = answer.text === "" && answer.thought === "" && problem !== null && !stopped;
      if (isEmpty) answer.element.remove();
      else answer.end(answer === all[all.length - 1] ? this.summary(answer, time, usage, problem) : this.ending(answer));
    }
    if (problem && !stopped) this.log.fault(problem);
    if (messages && (!problem || stopped) && all[0].text) {
      messages.push({ role: "user", content: text }, { role: "assistant", content: all[0].text });
    }
    if (!problem) this.text = all[0].text;
    this.stopped = stopped;
  }

  ending(answer) {
    return answer.finish === "length" ? "cut at the limit" : answer.finish;
  }

  summary(answer, time, usage, problem) {
    if (problem) return problem;
    const parts = [];
    const tokens = usage?.completion_tokens ?? 0;
    if (usage) parts.push(count(tokens, "token"));
    if (time.first) parts.push(`first after ${duration((time.first - time.begin) * 1000)}`);
    const seconds = (time.end - time.first) / 1000;
    if (time.first && tokens > 1 && seconds > 0) parts.push(`${Math.round((tokens - 1) / seconds).toLocaleString("en")} tokens/s`);
    const cached = usage?.prompt_tokens_details?.cached_tokens ?? 0;
    if (cached > 0) parts.push(`${cached} of ${usage.prompt_tokens} prompt tokens from the cache`);
    if (answer.finish === "length") parts.push(this.ending(answer));
    return parts.join(" · ");
  }

  clear() {
    this.messages = [];
    this.text = null;
    this.log.clear();
  }
}

const talk = {
  both: [new Side(log, "model"), new Side(secondLog, "second")],
  running: null,   // aborts the requests that are on their way

  get mode() { return document.querySelector('input[name="mode"]:checked').value; },
  get sides() { return this.both.filter((side) => side.model !== ""); },

  // Only what was filled in; the rest is the server's choice.
  settings() {
    const body = { stream: true, stream_options: { include_usage: true } };
    for (const input of $("settings").querySelectorAll("input")) {
      if (input.value === "") continue;
      body[input.name] = input.type === "number" ? Number(input.value) : input.value;
    }
    return body;
  },

  async send(text) {
    const sides = this.sides;
    $("verdict").textContent = "";
    await Promise.all(sides.map((side) => side.send(text, this.running.signal)));
    const said = sides.map((side) => side.text).filter((one) => one !== null);
    if (sides.length === 2 && said.length === 2) $("verdict").textContent = this.verdict(...said);
    $("announce").textContent = sides.some((side) => side.stopped) ? "Stopped."
        : said.length < sides.length ? ""
        : said.length === 2 ? "Both answers are complete." : `The answer is complete: ${said[0]}`;
  },

  // How far two answers are the same.
  verdict(one, other) {
    if (one === other) return "Both answers are the same, to the last character.";
    let same = 0;
    while (same < one.length && one[same] === other[same]) ++same;
    return same === 0 ? "The answers differ from the first character on."
        : `The answers are the same for ${count(same, "character")}, then they differ.`;
  },

  busy(controller) {
    this.running = controller;
    $("send").disabled = controller !== null;
    $("stop").disabled = controller === null;
    for (const side of this.both) side.log.box.setAttribute("aria-busy", String(controller !== null));
  },

  clear() {
    this.running?.abort();
    for (const side of this.both) side.clear();
    $("verdict").textContent = "";
  },

  showSides() {
    const isPair = $("second").value !== "";
    document.body.dataset.sides = isPair ? "2" : "1";
    $("second-log").hidden = !isPair;
    this.clear();
    drawLive();
  },

  showMode() {
    const isChat = this.mode === "chat";
    $("prompt").placeholder = isChat ? "Say something" : "Once upon a time";
    $("prompt-label").textContent = isChat ? "Message" : "Text to go on with";
    $("send").textContent = isChat ? "Send" : "Go on";
    $("system-field").hidden = !isChat;
    for (const side of this.both) {
      side.log.box.dataset.empty = isChat ? "A conversation begins with you." : "Write the beginning of a text; the model goes on with it.";
    }
    this.clear();
  },

  showSettings() {
    const set = [...$("settings").querySelectorAll("input, textarea")].filter((input) => input.value !== "");
    const names = set.map((input) => `${input.closest("label").firstChild.textContent.trim().toLowerCase()} ${input.value.slice(0, 12)}`);
    $("settings-said").textContent = names.length > 3 ? `${names.length} set` : names.join(", ");
  },
};

$("ask").addEventListener("submit", async (event) => {
  event.preventDefault();
  const text = $("prompt").value;
  if (talk.running || text.trim() === "") return;
  const wrong = $("settings").querySelector(":invalid");
  if (wrong) {
    wrong.closest("details").open = true;
    return wrong.reportValidity();
  }
  talk.busy(new AbortController());
  if (talk.mode === "chat") $("prompt").value = "";
  await talk.send(text);
  talk.busy(null);
});
$("prompt").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  $("ask").requestSubmit();
});
$("stop").addEventListener("click", () => talk.running?.abort());
$("clear").addEventListener("click", () => talk.clear());
$("second").addEventListener("change", () => talk.showSides());
$("settings").addEventListener("input", () => talk.showSettings());
for (const input of document.querySelectorAll('input[name="mode"]')) input.addEventListener("change", () => talk.showMode());

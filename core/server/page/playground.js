// The playground: what is asked for, and the answers as they come.

const talk = {
  messages: [],    // of the chat so far
  running: null,   // aborts the request that is on its way

  get mode() { return document.querySelector('input[name="mode"]:checked').value; },

  // Only what was filled in; the rest is the server's choice.
  settings() {
    const body = { model: $("model").value, stream: true, stream_options: { include_usage: true } };
    for (const input of $("settings").querySelectorAll("input")) {
      if (input.value === "") continue;
      body[input.name] = input.type === "number" ? Number(input.value) : input.value;
    }
    return body;
  },

  request(text) {
    const body = this.settings();
    const shows = $("logprobs").checked;
    if (this.mode === "completion") {
      body.prompt = text;
      if (shows) body.logprobs = 5;
      return ["/v1/completions", body];
    }
    const system = $("settings").querySelector('[name="system"]').value;
    body.messages = [...(system ? [{ role: "system", content: system }] : []), ...this.messages, { role: "user", content: text }];
    if (shows) Object.assign(body, { logprobs: true, top_logprobs: 5 });
    return ["/v1/chat/completions", body];
  },

  async send(text) {
    const [path, body] = this.request(text);
    const messages = this.messages;  // of this conversation, even where another one begins meanwhile
    const isChat = this.mode === "chat";
    log.toEnd();  // who asks wants to see the answer
    if (isChat) log.add("user", "You", text);
    const answers = new Map();
    const of = (index) => {
      if (!answers.has(index)) {
        const number = (body.n ?? 1) > 1 ? ` · answer ${index + 1}` : "";
        answers.set(index, new Answer(body.model + number, isChat ? "" : text));
      }
      return answers.get(index);
    };
    const time = { begin: performance.now(), first: 0, end: 0 };
    let usage = null, problem = null;
    try {
      of(0);
      const response = await ask(path, { body, signal: this.running.signal });
      await readEvents(response, (event) => {
        if (event.data === "[DONE]") return;
        const data = JSON.parse(event.data);
        if (data.error) throw new Error(data.error.message);
        usage = data.usage ?? usage;
        for (const choice of data.choices ?? []) {
          if (!time.first && (choice.text || choice.delta?.content || choice.delta?.reasoning_content)) time.first = performance.now();
          of(choice.index).take(choice);
        }
      });
      if (!usage) throw new Error("The answer broke off.");
    } catch (fault) {
      problem = this.running.signal.aborted ? "stopped" : fault.message;
    }
    time.end = performance.now();
    this.finish(text, isChat ? messages : null, answers, { time, usage, problem });
  },

  finish(text, messages, answers, { time, usage, problem }) {
    const all = [...answers.values()];
    const stopped = problem === "stopped";
    for (const answer of all) {
      const isEmpty = answer.text === "" && answer.thought === "" && problem !== null && !stopped;
      if (isEmpty) answer.element.remove();
      else answer.end(answer === all[all.length - 1] ? this.summary(answer, time, usage, problem) : this.ending(answer));
    }
    if (problem && !stopped) log.fault(problem);
    if (messages && (!problem || stopped) && all[0].text) {
      messages.push({ role: "user", content: text }, { role: "assistant", content: all[0].text });
    }
    $("announce").textContent = problem ? (stopped ? "Stopped." : "") : `The answer is complete: ${all[0].text}`;
  },

  ending(answer) {
    return answer.finish === "length" ? "cut at the limit" : answer.finish;
  },

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
  },

  busy(controller) {
    this.running = controller;
    $("send").disabled = controller !== null;
    $("stop").disabled = controller === null;
    $("log").setAttribute("aria-busy", String(controller !== null));
  },

  clear() {
    this.running?.abort();
    this.messages = [];
    $("log").replaceChildren();
  },

  showMode() {
    const isChat = this.mode === "chat";
    $("prompt").placeholder = isChat ? "Say something" : "Once upon a time";
    $("prompt-label").textContent = isChat ? "Message" : "Text to go on with";
    $("send").textContent = isChat ? "Send" : "Go on";
    $("system-field").hidden = !isChat;
    $("log").dataset.empty = isChat ? "A conversation begins with you." : "Write the beginning of a text; the model goes on with it.";
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
$("settings").addEventListener("input", () => talk.showSettings());
for (const input of document.querySelectorAll('input[name="mode"]')) input.addEventListener("change", () => talk.showMode());

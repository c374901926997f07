// The line to the engine: its steps as they are made. It is closed while nobody sees the page, so
// that the engine gathers nothing then.

const feed = {
  model: "",
  line: null,       // aborts the one that is open
  wait: 500,        // ms before the next try

  watch(model) {
    this.model = model;
    this.close();
    if (!model || document.hidden) return;
    if (isLoaded(model)) this.open();
    else this.say("off", "The model is not loaded: ask it something.");
  },

  close() {
    this.line?.abort();
    this.line = null;
  },

  say(state, text) {
    $("feed-state").dataset.state = state;
    $("feed-state").textContent = text;
  },

  async open() {
    const line = new AbortController();
    this.line = line;
    const since = history.newest && history.engine?.model === this.model ? `&since=${history.newest.step}` : "";
    try {
      const response = await ask(`/v1/engine/steps?model=${encodeURIComponent(this.model)}${since}`, { signal: line.signal });
      this.wait = 500;
      this.say("on", "Watching");
      await readEvents(response, (event) => this.take(event));
      this.say("off", "The server ended the line.");
    } catch (problem) {
      if (line.signal.aborted) return;
      this.say("off", problem.status === 401 ? "A key is needed." : `No line to the engine: ${problem.message}`);
      if (problem.status === 401 || problem.status === 404) return;
    }
    if (this.line !== line) return;
    setTimeout(async () => {
      if (this.line !== line || document.hidden) return;
      await refreshModels();  // it may have been unloaded
      if (this.line === line) this.watch(this.model);
    }, this.wait);
    this.wait = Math.min(this.wait * 2, 10000);
  },

  take(event) {
    const data = JSON.parse(event.data);
    if (event.name === "engine") {
      history.begin(data);
      showEngine();
    } else if (event.name === "step") {
      history.add(data);
    } else if (event.name === "dropped") {
      history.lost += data.steps;
    }
    player.wake();
  },
};

document.addEventListener("visibilitychange", () => (document.hidden ? feed.close() : feed.watch(feed.model)));

// What is said, as it stands in the log.

const log = {
  add(kind, who, text = "") {
    const element = make("div", { className: `turn ${kind}` }, make("span", { className: "who", textContent: who }),
                         make("div", { className: "said-text", textContent: text }));
    this.keepAtEnd(() => $("log").append(element));
    return element;
  },
  fault(message) {
    this.add("fault", "That did not work", message).setAttribute("role", "alert");
  },
  toEnd() { $("log").scrollTop = $("log").scrollHeight; },
  // Who has scrolled up to read is left there.
  keepAtEnd(change) {
    const box = $("log");
    const atEnd = box.scrollHeight - box.scrollTop - box.clientHeight < 40;
    change();
    if (atEnd) box.scrollTop = box.scrollHeight;
  },
};

// One answer while it comes.
class Answer {
  constructor(who, given = "") {
    this.element = log.add("model busy", who);
    this.text = "";
    this.thought = "";
    this.finish = "";
    this.given = given;
    this.body = this.element.querySelector(".said-text");
    if (given) this.body.append(make("span", { className: "given-text", textContent: given }));
  }

  take(choice) {
    const delta = choice.delta?.content ?? choice.text ?? "";
    const thought = choice.delta?.reasoning_content ?? "";
    const tokens = tokensOfChoice(choice);
    if (choice.finish_reason) this.finish = choice.finish_reason;
    log.keepAtEnd(() => {
      if (thought) this.think(thought);
      if (tokens.length > 0) this.takeTokens(tokens);
      else if (delta) this.body.append(delta);
    });
    this.text += delta;
  }

  takeTokens(tokens) {
    if (!this.tokens) {
      this.tokens = make("span");
      walkTokens(this.tokens);
      this.body.append(this.tokens);
    }
    addTokens(this.tokens, tokens);
  }

  think(text) {
    this.thought += text;
    this.thoughts ??= this.body.parentElement.insertBefore(make("div", { className: "thought" }), this.body);
    this.thoughts.append(text);
  }

  end(foot) {
    this.element.classList.remove("busy");
    log.keepAtEnd(() => this.element.append(make("div", { className: "foot", textContent: foot })));
  }
}

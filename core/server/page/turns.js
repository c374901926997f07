// What is said, as it stands in the log.

class Log {
  constructor(box) { this.box = box; }

  add(kind, who, text = "") {
    const element = make("div", { className: `turn ${kind}` }, make("span", { className: "who", textContent: who }),
                         make("div", { className: "said-text", textContent: text }));
    this.keepAtEnd(() => this.box.append(element));
    return element;
  }
  fault(message) {
    this.add("fault", "That did not work", message).setAttribute("role", "alert");
  }
  toEnd() { this.box.scrollTop = this.box.scrollHeight; }
  clear() { this.box.replaceChildren(); }
  // Who has scrolled up to read is left there.
  keepAtEnd(change) {
    const atEnd = this.box.scrollHeight - this.box.scrollTop - this.box.clientHeight < 40;
    change();
    if (atEnd) this.box.scrollTop = this.box.scrollHeight;
  }
}

const log = new Log($("log"));
const secondLog = new Log($("second-log"));

// What the model thought: the server names it as its owner wants.
function thoughtOfChoice(choice) {
  return choice.delta?.reasoning_content ?? choice.delta?.reasoning ?? "";
}

// One answer while it comes.
class Answer {
  constructor(log, who, given = "", note = "") {
    this.log = log;
    this.element = log.add("model busy", who);
    this.text = "";
    this.thought = "";
    this.finish = "";
    this.given = given;
    this.body = this.element.querySelector(".said-text");
    if (given) this.body.append(make("span", { className: "given-text", textContent: given }));
    if (note) this.body.append((this.note = make("span", { className: "note", textContent: note })));
  }

  take(choice) {
    const delta = choice.delta?.content ?? choice.text ?? "";
    const thought = thoughtOfChoice(choice);
    const tokens = tokensOfChoice(choice);
    if (choice.finish_reason) this.finish = choice.finish_reason;
    this.note?.remove();
    this.log.keepAtEnd(() => {
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
    this.note?.remove();
    this.element.classList.remove("busy");
    this.log.keepAtEnd(() => this.element.append(make("div", { className: "foot", textContent: foot })));
  }
}

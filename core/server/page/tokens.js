// An answer token by token, coloured by how likely each was, with what else it could have been.

const percent = (logprob) => {
  const share = Math.exp(logprob) * 100;
  return share >= 99.95 ? "100 %" : share < 0.1 ? "< 0.1 %" : `${share.toFixed(share < 10 ? 1 : 0)} %`;
};
// White space is shown, so that two tokens do not look the same.
const visible = (text) => (text === "" ? "∅" : text.replaceAll("\n", "⏎").replaceAll("\t", "⇥").replaceAll(" ", "␣"));

// {text, logprob, others: [{text, logprob}]} of both dialects.
function tokensOfChoice(choice) {
  const found = choice.logprobs;
  if (!found) return [];
  if (found.content) {
    return found.content.map((one) => ({
      text: one.token, logprob: one.logprob,
      others: (one.top_logprobs ?? []).map((other) => ({ text: other.token, logprob: other.logprob })),
    }));
  }
  return (found.tokens ?? []).map((text, index) => ({
    text, logprob: found.token_logprobs[index] ?? 0,
    others: Object.entries(found.top_logprobs?.[index] ?? {}).map(([other, logprob]) => ({ text: other, logprob })),
  }));
}

function tokenTable(token) {
  const rows = [...token.others];
  if (!rows.some((row) => row.text === token.text)) rows.push({ text: token.text, logprob: token.logprob });
  rows.sort((a, b) => b.logprob - a.logprob);
  const table = make("table");
  for (const row of rows.slice(0, 8)) {
    const bar = make("span", { className: "bar" });
    bar.style.width = `${(Math.exp(row.logprob) * 100).toFixed(1)}%`;
    table.append(make("tr", { className: row.text === token.text ? "chosen" : "" },
        make("td", { textContent: visible(row.text) }), make("td", { className: "bar-cell" }, bar),
        make("td", { textContent: percent(row.logprob) })));
  }
  return table;
}

function tokenElement(token) {
  const share = Math.exp(token.logprob);
  const element = make("span", { className: "token", textContent: token.text, tabIndex: -1 });
  element.style.setProperty("--surprise", clamp(1 - share, 0, 1).toFixed(3));
  if (share < 0.2) element.classList.add(share < 0.03 ? "rarest" : "rare");
  if (token.others.some((other) => other.logprob > token.logprob + 1e-6)) element.classList.add("passed-over");
  const others = token.others.filter((other) => other.text !== token.text).slice(0, 4);
  element.setAttribute("aria-label", `${visible(token.text)}, ${percent(token.logprob)}` +
      (others.length > 0 ? `; else ${others.map((other) => `${visible(other.text)} ${percent(other.logprob)}`).join(", ")}` : ""));
  element.setAttribute("role", "listitem");
  const show = () => {
    const box = element.getBoundingClientRect();
    tip.show(box.left, box.top, tokenTable(token));
  };
  for (const begin of ["pointerenter", "focus"]) element.addEventListener(begin, show);
  for (const end of ["pointerleave", "blur"]) element.addEventListener(end, () => tip.hide());
  return element;
}

// One stop for the Tab key; arrows go from token to token.
function walkTokens(list) {
  list.setAttribute("role", "list");
  list.setAttribute("aria-label", "Tokens with probabilities; left and right arrows walk over them");
  list.addEventListener("keydown", (event) => {
    const move = { ArrowLeft: "previousElementSibling", ArrowRight: "nextElementSibling" }[event.key];
    const next = move && event.target[move];
    if (event.key === "Escape") tip.hide();
    if (!next?.classList.contains("token")) return;
    event.preventDefault();
    event.target.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  });
}

function addTokens(list, tokens) {
  for (const token of tokens) list.append(tokenElement(token));
  if (!list.querySelector('[tabindex="0"]') && list.firstElementChild) list.firstElementChild.tabIndex = 0;
}

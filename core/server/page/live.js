// The live view: everything about the step that is shown.

const partNames = { scheduler: "scheduler", kv_cache: "K/V cache", drafter: "drafter",
                    executor: "model", sampler: "sampler", engine: "engine" };

function showEngine() {
  const engine = history.engine;
  const parts = [];
  for (const [part, plugin] of Object.entries(engine.plugins)) {
    parts.push(make("span", {}, `${partNames[part] === "model" ? "executor" : partNames[part]} `, make("b", { textContent: plugin })));
  }
  $("made-of").replaceChildren(...parts);
  $("block-tokens").textContent = count(engine.block_tokens, "token");
}

function showParts(step) {
  const all = Object.entries(step.times_us).filter(([, us]) => us > 0);
  const sum = all.reduce((total, [, us]) => total + us, 0) || 1;
  const bars = all.sort((a, b) => b[1] - a[1]).map(([part, us]) => {
    const share = us / sum;
    const bar = make("span", { textContent: share > 0.09 ? `${partNames[part]} ${Math.round(share * 100)} %` : "",
                               title: `${partNames[part]}: ${duration(us)}`, className: share > 0.09 ? "" : "thin" });
    bar.style.width = `${(share * 100).toFixed(2)}%`;
    return bar;
  });
  $("parts").replaceChildren(...bars);
  $("parts").setAttribute("aria-label", "Time inside each part: " + all.map(([part, us]) => `${partNames[part]} ${duration(us)}`).join(", "));
}

function figure(name, value) {
  return make("div", {}, make("dt", { textContent: name }), make("dd", { textContent: value }));
}

function showMemory(step) {
  const tokens = Math.max(1, history.engine.block_tokens);
  const blocks = (slots) => Math.floor(slots / tokens).toLocaleString("en");
  const held = blockMap.held;
  let shared = 0;
  for (const holders of held.values()) shared += holders.length > 1;
  $("kv").replaceChildren(
      figure("held", held.size.toLocaleString("en")), figure("of them shared", shared.toLocaleString("en")),
      figure("kept for later", blocks(step.kv.cached_tokens)), figure("free", blocks(step.kv.free_tokens)),
      figure("in all", history.engine.blocks.toLocaleString("en")));
  $("blocks").setAttribute("aria-label",
      `${held.size} of ${history.engine.blocks} blocks are held, ${shared} of them shared. Arrow keys walk over the map.`);
}

function showQueue(step) {
  const end = step.start_us + step.time_us;
  const waiting = step.sequences.filter((sequence) => sequence.state === "waiting");
  const items = waiting.slice(0, 60).map((sequence) => make("li", {}, sequenceTag(sequence),
      ` ${count(sequence.prompt_tokens, "token")}, ${duration(end - sequence.arrival_us)}`));
  const more = waiting.length - items.length + step.left_out_sequences;
  if (more > 0) items.push(make("li", { textContent: `and ${more} more` }));
  if (items.length === 0) items.push(make("li", { className: "nobody", textContent: "Nobody waits." }));
  $("queue").replaceChildren(...items);
}

// A dot an event, the newest at the right, with a line at the median.
function drawDots(id, values) {
  const { pen, width, height } = openCanvas($(id));
  if (width === 0 || values.length === 0) return;
  const most = Math.max(...values), median = quantile(values, 0.5);
  const y = (value) => height - 4 - (value / most) * (height - 9);
  pen.strokeStyle = palette.line;
  pen.lineWidth = 1;
  line(pen, 0, height - 3.5, width, height - 3.5);
  pen.strokeStyle = palette.soft;
  pen.setLineDash([3, 3]);
  line(pen, 0, y(median), width, y(median));
  pen.setLineDash([]);
  pen.fillStyle = palette.wood;
  values.forEach((value, index) => {
    pen.beginPath();
    pen.arc(width - 3 - (values.length - 1 - index) * Math.min(7, (width - 6) / values.length), y(value), 2, 0, 7);
    pen.fill();
  });
}

function showFeel(step) {
  const upTo = (list, most) => {
    const values = [];
    for (let i = list.length - 1; i >= 0 && values.length < most; --i) {
      if (list[i].step <= step.step) values.push(list[i].us);
    }
    return values.reverse();
  };
  for (const [id, name, list] of [["first", "First token", history.firstTokens], ["gaps", "Between tokens", history.gaps]]) {
    const values = upTo(list, 120);
    const said = values.length === 0 ? "–" : `median ${duration(quantile(values, 0.5))}, 19 of 20 within ${duration(quantile(values, 0.95))}`;
    $(id === "first" ? "first-said" : "gap-said").textContent = `${name}: ${said}`;
    drawDots(id, values);
  }
}

function showTable(step) {
  if (!$("rows").closest("details").open) return;
  const cells = (sequence) => {
    const blocks = sequence.blocks.reduce((sum, [, length]) => sum + length, 0);
    return [sequence.state, sequence.prompt_tokens, sequence.known_tokens, sequence.computed_tokens,
            sequence.prefill, sequence.decode, sequence.drafts, sequence.kept, blocks];
  };
  $("rows").replaceChildren(...step.sequences.slice(0, 200).map((sequence) => make("tr", {},
      make("td", {}, sequenceTag(sequence)),
      ...cells(sequence).map((value) => make("td", { textContent: value })))));
}

function showTransport() {
  const last = history.steps.length - 1;
  const scrub = $("scrub");
  scrub.max = Math.max(last, 0);
  scrub.value = Math.max(history.at, 0);
  scrub.setAttribute("aria-valuetext", history.shown ? batchLabel(history.shown) : "no step");
  $("back").disabled = history.at <= 0;
  $("forward").disabled = history.at >= last;
  const behind = last - history.at;
  let text = history.paused ? ", paused" : "";
  if (behind > 0) text += `, ${behind.toLocaleString("en")} behind`;
  if (history.lost > 0) text += `; ${count(history.lost, "step")} lost`;
  $("behind").textContent = text;
}

const drawLive = oncePerFrame(() => {
  showTransport();
  const step = history.shown;
  if (!step) return;
  batchPicture.draw();
  blockMap.draw();
  tellStory(step);
  showParts(step);
  showMemory(step);
  showQueue(step);
  showFeel(step);
  showTable(step);
  $("batch").setAttribute("aria-label", batchLabel(step));
});

$("rows").closest("details").addEventListener("toggle", drawLive);
new ResizeObserver(drawLive).observe($("live"));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  readPalette();
  drawLive();
});

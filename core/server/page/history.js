// The steps that were heard of, and which of them is shown.

const kKept = 4000;  // steps

const history = {
  engine: null,       // what the server said about the engine
  steps: [],          // in order; each with `lanes`, where its sequences stand in the picture
  at: -1,             // index of the step that is shown
  paused: false,
  lost: 0,            // steps that the server could not keep for us
  firstTokens: [],    // {step, us}
  gaps: [],           // {step, us}
  firstHeld: [],      // [block] id of the first step that held it
  highestBlock: -1,
  lanes: new Map(),   // sequence id → lane, while it runs

  begin(engine) {
    // The same engine after a break in the line: what was heard of stays.
    const isSame = this.engine && this.engine.pipeline === engine.pipeline && this.engine.model === engine.model;
    this.engine = engine;
    if (!isSame) this.clear();
  },

  clear() {
    Object.assign(this, { steps: [], at: -1, lost: 0, firstTokens: [], gaps: [],
                          firstHeld: [], highestBlock: -1, lanes: new Map() });
  },

  get shown() { return this.steps[this.at]; },
  get newest() { return this.steps[this.steps.length - 1]; },

  add(step) {
    // A server that was started anew counts from one again.
    if (this.newest && step.step <= this.newest.step) this.clear();
    this.giveLanes(step);
    this.noteBlocks(step);
    for (const sequence of step.sequences) {
      if (sequence.first_token_us !== undefined) this.firstTokens.push({ step: step.step, us: sequence.first_token_us });
      if (sequence.gap_us !== undefined) this.gaps.push({ step: step.step, us: sequence.gap_us });
    }
    this.steps.push(step);
    if (this.paused) this.at = Math.max(this.at, 0);
    if (this.steps.length > kKept) this.forget(kKept / 8);
  },

  forget(steps) {
    this.steps.splice(0, steps);
    this.at = Math.max(this.at - steps, 0);
    const oldest = this.steps[0].step;
    this.firstTokens = this.firstTokens.filter((one) => one.step >= oldest);
    this.gaps = this.gaps.filter((one) => one.step >= oldest);
  },

  // A sequence stays in its lane while it runs; the lowest free one is next.
  giveLanes(step) {
    const present = new Set(step.sequences.map((sequence) => sequence.id));
    for (const id of this.lanes.keys()) if (!present.has(id)) this.lanes.delete(id);
    const taken = new Set(this.lanes.values());
    step.lanes = new Map();
    for (const sequence of step.sequences) {
      const worked = sequence.prefill + sequence.decode + sequence.drafts + sequence.tokens > 0;
      if (sequence.state === "waiting" && !worked) {
        this.lanes.delete(sequence.id);
        continue;
      }
      let lane = this.lanes.get(sequence.id);
      if (lane === undefined) {
        for (lane = 0; taken.has(lane);) ++lane;
        taken.add(lane);
        this.lanes.set(sequence.id, lane);
      }
      step.lanes.set(sequence.id, lane);
      if (sequence.state !== "running") this.lanes.delete(sequence.id);
    }
  },

  noteBlocks(step) {
    for (const sequence of step.sequences) {
      for (const [first, length] of sequence.blocks) {
        this.highestBlock = Math.max(this.highestBlock, first + length - 1);
        for (let block = first; block < first + length; ++block) this.firstHeld[block] ??= step.step;
      }
    }
  },

  // block → the sequences that hold it.
  holders(step) {
    const map = new Map();
    for (const sequence of step.sequences) {
      for (const [first, length] of sequence.blocks) {
        for (let block = first; block < first + length; ++block) {
          if (!map.has(block)) map.set(block, []);
          map.get(block).push(sequence);
        }
      }
    }
    return map;
  },
};

// "#12", and of several answers to one request "#12.3".
function sequenceName(sequence) {
  return sequence.sample > 0 ? `#${sequence.request}.${sequence.sample + 1}` : `#${sequence.request}`;
}

function sequenceTag(sequence) {
  const tag = make("span", { className: "tag", textContent: sequenceName(sequence) });
  tag.style.setProperty("--of", sequenceColour(sequence.id));
  return tag;
}

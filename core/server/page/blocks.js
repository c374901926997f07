// The K/V cache as a map: a cell a block, coloured by who holds it.

const blockMap = {
  size: 10,
  columns: 1,
  blocks: 0,     // that are drawn
  focus: -1,     // the block that is looked at
  held: new Map(),

  // All blocks where they fit; else those that were ever used, and some more.
  blocksDrawn() {
    const all = history.engine?.blocks ?? 0;
    const used = history.highestBlock + 1;
    return Math.min(all, Math.max(256, Math.ceil((used + 32) / 64) * 64));
  },

  layOut(width, height) {
    this.blocks = this.blocksDrawn();
    for (this.size = 18; this.size > 3; --this.size) {
      this.columns = Math.max(1, Math.floor(width / this.size));
      if (Math.ceil(this.blocks / this.columns) * this.size <= height) break;
    }
    this.columns = Math.max(1, Math.floor(width / this.size));
  },

  draw() {
    const { pen, width, height } = openCanvas($("blocks"));
    if (width === 0 || !history.shown) return;
    this.layOut(width, height);
    this.held = history.holders(history.shown);
    const gap = this.size > 6 ? 2 : 1;
    const inner = this.size - gap;
    for (let block = 0; block < this.blocks; ++block) {
      const x = (block % this.columns) * this.size, y = Math.floor(block / this.columns) * this.size;
      if (y > height) break;
      this.drawBlock(pen, block, x, y, inner);
    }
    this.say();
  },

  drawBlock(pen, block, x, y, inner) {
    const holders = this.held.get(block);
    if (holders) {
      pen.fillStyle = sequenceColour(holders[0].id);
      pen.fillRect(x, y, inner, inner);
      if (holders.length > 1) this.drawShared(pen, holders, x, y, inner);
    } else if (this.firstHeld(block)) {
      pen.fillStyle = palette.sunk;
      pen.fillRect(x, y, inner, inner);
      pen.fillStyle = palette.soft;
      pen.fillRect(x + inner / 2 - 1, y + inner / 2 - 1, 2, 2);
    } else {
      pen.fillStyle = palette.sunk;
      pen.fillRect(x, y, inner, inner);
    }
    if (block === this.focus) {
      pen.strokeStyle = palette.ink;
      pen.lineWidth = 2;
      pen.strokeRect(x - 0.5, y - 0.5, inner + 1, inner + 1);
    }
  },

  drawShared(pen, holders, x, y, inner) {
    pen.fillStyle = sequenceColour(holders[1].id);
    pen.beginPath();
    pen.moveTo(x + inner, y);
    pen.lineTo(x + inner, y + inner);
    pen.lineTo(x, y + inner);
    pen.fill();
    pen.strokeStyle = palette.card;
    pen.lineWidth = inner > 8 ? 1.6 : 1;
    line(pen, x, y + inner, x + inner, y);
  },

  firstHeld(block) {
    return history.firstHeld[block] !== undefined && history.firstHeld[block] < history.shown.step;
  },

  blockAt(x, y) {
    const column = Math.floor(x / this.size);
    const block = Math.floor(y / this.size) * this.columns + column;
    return column < this.columns && block < this.blocks ? block : -1;
  },

  // What is known about the block that is looked at.
  say() {
    const rest = (history.engine?.blocks ?? 0) - this.blocks;
    let text = rest > 0 ? `Blocks 0 to ${this.blocks - 1}; ${rest.toLocaleString("en")} more were never used.` : "";
    if (this.focus >= 0) text = this.sentence(this.focus);
    if ($("block-said").textContent !== text) $("block-said").textContent = text;
  },

  sentence(block) {
    const holders = this.held.get(block) ?? [];
    if (holders.length === 0) {
      return `Block ${block}: held by nobody${this.firstHeld(block) ? " now; it was held before" : ""}.`;
    }
    const places = holders.map((sequence) => `${sequenceName(sequence)} (${this.placeIn(sequence, block)})`);
    return `Block ${block}: ${holders.length > 1 ? "shared by" : "held by"} ${places.join(", ")}.`;
  },

  // "block 3 of 5" of a sequence's own.
  placeIn(sequence, wanted) {
    let place = 0, all = 0;
    for (const [first, length] of sequence.blocks) {
      if (wanted >= first && wanted < first + length) place = all + wanted - first + 1;
      all += length;
    }
    return `block ${place} of ${all}`;
  },

  // Arrow keys walk over the map.
  key(event) {
    const moves = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -this.columns, ArrowDown: this.columns };
    if (!(event.key in moves) || this.blocks === 0) return;
    event.preventDefault();
    this.focus = clamp(this.focus < 0 ? 0 : this.focus + moves[event.key], 0, this.blocks - 1);
    drawLive();
  },
};

// The batch over time: a column a step, a lane a sequence.

const batchPicture = {
  end: -1,      // index of the step at the right edge
  columns: [],  // {index, left, width}, as drawn
  labelWidth: 46,
  timeHeight: 40,
  footHeight: 18,
  tall: 0,      // in pixels

  draftsOf(step) {
    return step.sequences.reduce((most, sequence) => Math.max(most, sequence.drafts), 0);
  },
  // A step with drafts needs room for a box each.
  columnWidth(step) {
    return Math.max(24, 16 + 9 * Math.min(this.draftsOf(step), 8));
  },

  // The columns that fit, the last one at `end`.
  layOut(width) {
    this.columns = [];
    if (history.at > this.end || !history.paused) this.end = history.at;
    this.end = Math.min(this.end, history.steps.length - 1);
    for (;;) {
      this.columns = [];
      let right = width - 2;
      for (let index = this.end; index >= 0; --index) {
        const wide = this.columnWidth(history.steps[index]);
        if (right - wide < this.labelWidth) break;
        right -= wide;
        this.columns.push({ index, left: right, width: wide });
      }
      this.columns.reverse();
      // Stepping back beyond the left edge moves the window.
      if (this.columns.length === 0 || history.at >= this.columns[0].index) break;
      --this.end;
    }
    // Few steps begin at the left.
    const spare = this.columns.length ? this.columns[0].left - this.labelWidth : 0;
    if (this.columns.length && this.columns[0].index === 0) {
      for (const column of this.columns) column.left -= spare;
    }
  },

  draw() {
    const canvas = $("batch");
    if (canvas.clientWidth === 0 || history.at < 0) return;
    this.layOut(canvas.clientWidth);
    const lanes = this.lanesShown();
    const top = this.timeHeight + 6;
    // It grows with the batch, and stays: a page that jumps cannot be read.
    this.tall = Math.max(this.tall, top + Math.min(lanes, 14) * 26 + this.footHeight);
    canvas.style.height = `${this.tall}px`;
    const { pen, width, height } = openCanvas(canvas);
    const laneHeight = Math.min(26, (height - top - this.footHeight) / lanes);
    this.drawGround(pen, width, top, lanes, laneHeight);
    this.drawTimes(pen);
    for (const column of this.columns) {
      const step = history.steps[column.index];
      pen.globalAlpha = column.index > history.at ? 0.35 : 1;
      for (const sequence of step.sequences) {
        const lane = step.lanes.get(sequence.id);
        if (lane === undefined || lane >= lanes) continue;
        this.drawCell(pen, sequence, column.left, top + lane * laneHeight, column.width, laneHeight);
      }
    }
    pen.globalAlpha = 1;
    this.drawLabels(pen, top, lanes, laneHeight, height);
  },

  lanesShown() {
    let highest = 3;
    for (const column of this.columns) {
      for (const lane of history.steps[column.index].lanes.values()) highest = Math.max(highest, lane);
    }
    return Math.min(highest + 1, 36);
  },

  drawGround(pen, width, top, lanes, laneHeight) {
    pen.strokeStyle = palette.line;
    pen.lineWidth = 1;
    for (let lane = 0; lane <= lanes; ++lane) {
      const y = Math.round(top + lane * laneHeight) + 0.5;
      line(pen, this.labelWidth, y, width, y);
    }
    const here = this.columns.find((column) => column.index === history.at);
    if (!here) return;
    pen.fillStyle = palette.sunk;
    pen.fillRect(here.left, 0, here.width, top + lanes * laneHeight);
    pen.strokeStyle = palette.wood;
    pen.lineWidth = 1.5;
    pen.strokeRect(here.left + 0.75, 0.75, here.width - 1.5, top + lanes * laneHeight - 1);
  },

  drawTimes(pen) {
    const longest = Math.max(...this.columns.map((column) => history.steps[column.index].time_us), 1);
    pen.font = "11px " + fontOf("text");
    pen.fillStyle = palette.soft;
    pen.textAlign = "left";
    pen.fillText(duration(longest), 0, 11);
    pen.fillText("a step", 0, 24);
    for (const column of this.columns) {
      const step = history.steps[column.index];
      const tall = Math.max(1.5, (step.time_us / longest) * (this.timeHeight - 6));
      pen.globalAlpha = column.index > history.at ? 0.3 : 0.75;
      pen.fillStyle = column.index === history.at ? palette.wood : palette.soft;
      pen.fillRect(column.left + column.width / 2 - 5, this.timeHeight - tall, 10, tall);
    }
    pen.globalAlpha = 1;
  },

  drawCell(pen, sequence, left, top, width, height) {
    const middle = top + height / 2;
    if (sequence.prefill > 0) {
      this.drawPrefill(pen, sequence.prefill, left + 2, top + 2, width - 4, height - 4);
    } else if (sequence.decode > 0) {
      this.drawDecode(pen, sequence, left, middle, width, height);
    } else if (sequence.state === "running") {
      pen.strokeStyle = palette.soft;
      pen.lineWidth = 1.5;
      pen.setLineDash([2, 3]);
      line(pen, left + 4, middle, left + width - 4, middle);
      pen.setLineDash([]);
    }
    if (sequence.state === "ended") {
      pen.strokeStyle = palette.ink;
      pen.lineWidth = 2;
      line(pen, left + width - 2, top + 4, left + width - 2, top + height - 4);
    }
  },

  drawPrefill(pen, tokens, left, top, width, height) {
    pen.save();
    pen.beginPath();
    pen.roundRect(left, top, width, height, 3);
    pen.fillStyle = palette.prefill;
    pen.fill();
    pen.clip();
    pen.globalAlpha *= 0.28;
    pen.strokeStyle = palette["on-kind"];
    pen.lineWidth = 1;
    for (let x = left - height; x < left + width; x += 6) line(pen, x, top + height, x + height, top);
    pen.restore();
    if (height < 11) return;
    pen.fillStyle = palette["on-kind"];
    pen.font = `600 ${tokens > 99 && width < 26 ? 8 : 10}px ${fontOf("text")}`;
    pen.textAlign = "center";
    pen.fillText(tokens > 9999 ? `${Math.round(tokens / 1000)}k` : String(tokens), left + width / 2, top + height / 2 + 3.5);
  },

  drawDecode(pen, sequence, left, middle, width, height) {
    const radius = Math.min(5.5, height / 2 - 1.5);
    const centre = sequence.drafts > 0 ? left + 9 : left + width / 2;
    pen.fillStyle = palette.decode;
    pen.beginPath();
    pen.arc(centre, middle, radius, 0, 2 * Math.PI);
    pen.fill();
    for (let draft = 0; draft < Math.min(sequence.drafts, 8); ++draft) {
      this.drawDraft(pen, draft < sequence.kept, centre + radius + 2 + 9 * draft, middle, Math.min(7.5, height - 3));
    }
  },

  drawDraft(pen, isKept, left, middle, size) {
    const top = middle - size / 2;
    pen.lineWidth = 1.3;
    if (isKept) {
      pen.fillStyle = palette.kept;
      pen.beginPath();
      pen.roundRect(left, top, size, size, 1.5);
      pen.fill();
      pen.strokeStyle = palette["on-kind"];
      line(pen, left + 1.8, middle, left + size * 0.42, top + size - 2);
      line(pen, left + size * 0.42, top + size - 2, left + size - 1.6, top + 2);
      return;
    }
    pen.strokeStyle = palette.rejected;
    pen.strokeRect(left + 0.6, top + 0.6, size - 1.2, size - 1.2);
    line(pen, left + 2.2, top + 2.2, left + size - 2.2, top + size - 2.2);
    line(pen, left + size - 2.2, top + 2.2, left + 2.2, top + size - 2.2);
  },

  drawLabels(pen, top, lanes, laneHeight, height) {
    pen.textAlign = "left";
    pen.font = "600 11px " + fontOf("text");
    for (const sequence of history.shown.sequences) {
      const lane = history.shown.lanes.get(sequence.id);
      if (lane === undefined || lane >= lanes || laneHeight < 10) continue;
      const middle = top + (lane + 0.5) * laneHeight;
      pen.fillStyle = sequenceColour(sequence.id);
      pen.fillRect(0, middle - 4, 7, 8);
      pen.fillStyle = palette.ink;
      pen.fillText(sequenceName(sequence), 11, middle + 4, this.labelWidth - 13);
    }
    const here = this.columns.find((column) => column.index === history.at);
    if (!here) return;
    pen.font = "11px " + fontOf("text");
    pen.fillStyle = palette.soft;
    pen.textAlign = "center";
    const text = `step ${history.shown.step}`;
    const half = pen.measureText(text).width / 2 + 1;
    const x = clamp(here.left + here.width / 2, this.labelWidth + half, $("batch").clientWidth - half);
    pen.fillText(text, x, Math.min(height - 3, top + lanes * laneHeight + 13));
  },

  stepAt(x) {
    const hit = this.columns.find((column) => x >= column.left && x < column.left + column.width);
    return hit ? hit.index : -1;
  },
};

function fontOf(kind) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${kind}`);
}

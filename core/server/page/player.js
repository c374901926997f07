// Which step is shown: the newest, one after the other in slow motion, or the one that was chosen.

const player = {
  ticking: false,
  last: 0,    // when the picture moved
  owed: 0,    // steps that time has allowed for
  saying: 0,  // timer

  get rate() { return Number($("speed").value); },  // steps a second; 0 = as they come

  wake() {
    if (this.ticking || history.paused) return drawLive();
    this.ticking = true;
    this.last = performance.now();
    this.owed = 1;
    requestAnimationFrame((now) => this.tick(now));
  },

  tick(now) {
    this.ticking = false;
    if (history.paused || history.steps.length === 0) return;
    const newest = history.steps.length - 1;
    if (this.rate === 0) {
      history.at = newest;
    } else {
      this.owed += (now - this.last) / 1000 * this.rate;
      const whole = Math.floor(this.owed);
      this.owed -= whole;
      history.at = Math.min(history.at + whole, newest);
    }
    this.last = now;
    drawLive();
    if (history.at === newest) return;
    this.ticking = true;
    requestAnimationFrame((then) => this.tick(then));
  },

  // Chooses a step, and stays there.
  show(index) {
    if (history.steps.length === 0) return;
    history.at = clamp(index, 0, history.steps.length - 1);
    this.pause(true);
    clearTimeout(this.saying);
    // Read out where the walk ends, not on the way.
    this.saying = setTimeout(() => ($("announce").textContent = $("story").textContent), 400);
  },

  pause(paused) {
    history.paused = paused;
    $("pause").textContent = paused ? "Play" : "Pause";
    $("pause").setAttribute("aria-pressed", String(paused));
    paused ? drawLive() : this.wake();
  },

  toNewest() {
    history.at = history.steps.length - 1;
    this.pause(false);
  },
};

$("back").addEventListener("click", () => player.show(history.at - 1));
$("forward").addEventListener("click", () => player.show(history.at + 1));
$("pause").addEventListener("click", () => player.pause(!history.paused));
$("newest").addEventListener("click", () => player.toNewest());
$("speed").addEventListener("change", () => player.wake());
$("scrub").addEventListener("input", (event) => player.show(Number(event.target.value)));
$("batch").addEventListener("click", (event) => {
  const index = batchPicture.stepAt(event.offsetX);
  if (index >= 0) player.show(index);
});

$("blocks").addEventListener("keydown", (event) => blockMap.key(event));
$("blocks").addEventListener("pointermove", (event) => {
  const block = blockMap.blockAt(event.offsetX, event.offsetY);
  if (block !== blockMap.focus) {
    blockMap.focus = block;
    drawLive();
  }
});
for (const leave of ["pointerleave", "blur"]) {
  $("blocks").addEventListener(leave, () => {
    blockMap.focus = -1;
    drawLive();
  });
}

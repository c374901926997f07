// Small things that every part uses. Texts of models and users become text nodes, never markup.

const $ = (id) => document.getElementById(id);

function make(name, properties, ...children) {
  const element = document.createElement(name);
  Object.assign(element, properties);
  element.append(...children);
  return element;
}

const clamp = (value, least, most) => Math.min(Math.max(value, least), most);
const count = (number, one, many = one + "s") => `${number.toLocaleString("en")} ${number === 1 ? one : many}`;

function duration(us) {
  if (us < 1000) return `${Math.round(us)} µs`;
  const ms = us / 1000;
  if (ms < 10) return `${ms.toFixed(1)} ms`;
  return ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`;
}

// The value that `share` of them do not exceed.
function quantile(values, share) {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))];
}

// Calls `draw` before the next frame, however often it was asked for.
function oncePerFrame(draw) {
  let asked = false;
  return () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => {
      asked = false;
      draw();
    });
  };
}

// Colours as the style sheet has them now.
let palette = {};
function readPalette() {
  const style = getComputedStyle(document.documentElement);
  for (const name of ["card", "sunk", "ink", "soft", "line", "wood", "prefill", "decode", "kept",
                      "rejected", "on-kind", "sequence-lightness", "sequence-saturation"]) {
    palette[name] = style.getPropertyValue(`--${name}`).trim();
  }
}
readPalette();

// Neighbouring ids get hues far apart (the golden angle).
function sequenceColour(id) {
  const hue = (id * 137.508 + 25) % 360;
  return `hsl(${hue.toFixed(0)} ${palette["sequence-saturation"]} ${palette["sequence-lightness"]})`;
}

// A canvas in pixels of the screen, drawn in pixels of the page.
function openCanvas(canvas) {
  const box = canvas.getBoundingClientRect();
  const ratio = window.devicePixelRatio || 1;
  const width = Math.round(box.width * ratio), height = Math.round(box.height * ratio);
  if (canvas.width !== width || canvas.height !== height) {
    canvas.width = width;
    canvas.height = height;
  }
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, box.width, box.height);
  return { pen, width: box.width, height: box.height };
}

function line(pen, x1, y1, x2, y2) {
  pen.beginPath();
  pen.moveTo(x1, y1);
  pen.lineTo(x2, y2);
  pen.stroke();
}

// A box beside the pointer or an element, inside the window.
const tip = {
  show(x, y, ...children) {
    const box = $("tip");
    box.replaceChildren(...children);
    box.hidden = false;
    const size = box.getBoundingClientRect();
    const below = y + 18 + size.height < innerHeight;
    box.style.left = `${clamp(x + 12, 6, Math.max(6, innerWidth - size.width - 6))}px`;
    box.style.top = `${below ? y + 18 : Math.max(6, y - size.height - 14)}px`;
  },
  hide() {
    $("tip").hidden = true;
  },
};

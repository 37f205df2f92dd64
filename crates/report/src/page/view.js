// The view: a stretch of events or of time, which all charts share, and a stretch of addresses. Charts are drawn again when it changes.

const MARGIN = { left: 70, right: 8, bottom: 24, top: 8 };
const MARGINS = {
  memory: MARGIN,
  ratio: MARGIN,
  // With a line above for the scopes that are entered.
  plan: { ...MARGIN, top: 22 },
  strip: { left: 0, right: 0, bottom: 0, top: 0 },
};

const view = {
  device: null,
  axis: "event",
  from: 0,
  to: 1,
  low: 0,
  high: 1,
  // The horizontal place of the pointer, the array under it, and the selected array; -1 for none.
  cursor: NaN,
  hover: -1,
  selected: -1,
};

const painters = [];
let isAsked = false;

function redraw() {
  if (isAsked) return;
  isAsked = true;
  requestAnimationFrame(drawNow);
}

function drawNow() {
  isAsked = false;
  painters.forEach((paint) => paint());
}

// The horizontal place of an event.
function across(event) {
  if (view.axis === "event") return event;
  return run.events ? run.times[Math.min(event, run.events - 1)] : 0;
}

// The whole horizontal stretch: from the first use of the device's memory to the last.
function bounds() {
  const [begin, end] = [across(view.device.begin), across(view.device.end)];
  return [begin, Math.max(end, begin + 1)];
}

function isWhole() {
  const [begin, end] = bounds();
  return view.to - view.from >= end - begin;
}

// The last event at a horizontal place.
function eventAt(place) {
  if (view.axis === "event") return Math.max(0, Math.min(run.events - 1, Math.floor(place)));
  let low = 0;
  let high = run.events;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (run.times[middle] <= place) low = middle + 1;
    else high = middle;
  }
  return Math.max(0, low - 1);
}

function showAll() {
  const [from, to] = bounds();
  Object.assign(view, { from, to, low: 0, high: view.device.height });
  redraw();
}

// A stretch of some length, moved to fit.
function fitted(from, length, [begin, end], least) {
  length = Math.min(Math.max(length, least), end - begin);
  from = Math.max(begin, Math.min(from, end - length));
  return [from, from + length];
}

function look(from, length) {
  [view.from, view.to] = fitted(from, length, bounds(), view.axis === "event" ? 4 : 100);
  redraw();
}

function lookUp(low, length) {
  [view.low, view.high] = fitted(low, length, [0, view.device.height], 64);
  redraw();
}

// Zooms around a place, given as a share of the view.
function zoomAcross(factor, at = 0.5) {
  const length = view.to - view.from;
  look(view.from + length * at * (1 - factor), length * factor);
}

function zoomUp(factor, at = 0.5) {
  const length = view.high - view.low;
  lookUp(view.low + length * at * (1 - factor), length * factor);
}

function move(right, up) {
  look(view.from + (view.to - view.from) * right, view.to - view.from);
  lookUp(view.low + (view.high - view.low) * up, view.high - view.low);
}

let colours = {};

function readColours() {
  const style = getComputedStyle(document.documentElement);
  const names = ["card", "text", "quiet", "line", "grid", "accent", "accent-soft", "idle", "hole", "bad"];
  colours = Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
  colours.series = Array.from({ length: 9 }, (_, i) => style.getPropertyValue(`--s${i}`).trim());
}

// A canvas to draw on, in pixels of the page: its size, and the frame of the data.
function surface(id) {
  const margin = MARGINS[id];
  const canvas = byId(id);
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  const density = window.devicePixelRatio || 1;
  const size = [Math.round(width * density), Math.round(height * density)];
  if (canvas.width !== size[0] || canvas.height !== size[1]) [canvas.width, canvas.height] = size;
  const paper = canvas.getContext("2d");
  paper.setTransform(density, 0, 0, density, 0, 0);
  paper.clearRect(0, 0, width, height);
  paper.font = `12px ${getComputedStyle(document.body).fontFamily}`;
  const frame = { left: margin.left, top: margin.top, width: width - margin.left - margin.right, height: height - margin.top - margin.bottom };
  return { paper, width, height, frame };
}

// About so many round numbers in a stretch: multiples of 1, 2 or 5 times a power of the base.
function ticks(from, to, about, steps) {
  const least = (to - from) / Math.max(about, 1);
  const step = steps.find((step) => step >= least) ?? steps[steps.length - 1];
  const found = [];
  for (let tick = Math.ceil(from / step) * step; tick <= to; tick += step) found.push(tick);
  return found;
}

const DECIMAL = Array.from({ length: 48 }, (_, i) => [1, 2, 5][i % 3] * 10 ** Math.floor(i / 3));
const BINARY = Array.from({ length: 54 }, (_, i) => 2 ** i);

// The lines and labels of the horizontal axis.
function drawAcross({ paper, frame }) {
  const bottom = frame.top + frame.height;
  const isEvents = view.axis === "event";
  paper.textAlign = "center";
  paper.textBaseline = "top";
  for (const tick of ticks(view.from, view.to, frame.width / 110, DECIMAL)) {
    const x = frame.left + ((tick - view.from) / (view.to - view.from)) * frame.width;
    paper.fillStyle = colours.grid;
    paper.fillRect(Math.round(x), frame.top, 1, frame.height);
    paper.fillStyle = colours.quiet;
    const half = 30;
    const text = isEvents ? countText(tick) : timeText(tick);
    paper.fillText(text, Math.min(Math.max(x, frame.left + 6), frame.left + frame.width - half), bottom + 6);
  }
  paper.textAlign = "right";
  paper.fillStyle = colours.quiet;
  paper.fillText(isEvents ? "event" : "time", frame.left - 10, bottom + 6);
}

// The lines and labels of a vertical axis.
function drawUp({ paper, frame }, low, high, steps, word) {
  paper.textAlign = "right";
  paper.textBaseline = "middle";
  for (const tick of ticks(low, high, frame.height / 44, steps)) {
    const y = frame.top + frame.height - ((tick - low) / (high - low)) * frame.height;
    paper.fillStyle = colours.grid;
    paper.fillRect(frame.left, Math.round(y), frame.width, 1);
    paper.fillStyle = colours.quiet;
    paper.fillText(word(tick), frame.left - 10, Math.max(y, frame.top + 5));
  }
}

function drawCursor({ paper, frame }) {
  const x = frame.left + ((view.cursor - view.from) / (view.to - view.from)) * frame.width;
  if (!(x >= frame.left && x <= frame.left + frame.width)) return;
  paper.fillStyle = colours.quiet;
  paper.fillRect(Math.round(x), frame.top, 1, frame.height);
}

// Pointers, wheel and pinch on a canvas. A drag moves the view; callers get points and clicks.
function gestures(canvas, { isUpToo = false, onPoint, onClick, onLeave }) {
  const pointers = new Map();
  let moved = 0;
  const margin = MARGINS[canvas.id];
  const place = (event) => {
    const box = canvas.getBoundingClientRect();
    const [width, height] = [box.width - margin.left - margin.right, box.height - margin.top - margin.bottom];
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    return { x, y, right: (x - margin.left) / width, up: 1 - (y - margin.top) / height, width, height };
  };
  const pinch = (event, at) => {
    const other = [...pointers].find(([id]) => id !== event.pointerId)[1];
    const before = pointers.get(event.pointerId);
    const far = (one) => Math.max(Math.hypot(one.x - other.x, one.y - other.y), 10);
    const factor = far(before) / far(at);
    zoomAcross(factor, (at.right + other.right) / 2);
    if (isUpToo) zoomUp(factor, (at.up + other.up) / 2);
    moved = 99;
  };
  canvas.addEventListener("pointerdown", (event) => {
    if (event.isTrusted) canvas.setPointerCapture(event.pointerId);
    pointers.set(event.pointerId, place(event));
    if (pointers.size === 1) moved = 0;
  });
  canvas.addEventListener("pointermove", (event) => {
    const at = place(event);
    const before = pointers.get(event.pointerId);
    if (before && pointers.size === 2) pinch(event, at);
    else if (before) {
      moved += Math.abs(at.x - before.x) + Math.abs(at.y - before.y);
      if (moved > 4) move(before.right - at.right, isUpToo ? before.up - at.up : 0);
    }
    if (before) pointers.set(event.pointerId, at);
    onPoint(at);
  });
  const end = (event) => {
    const wasDown = pointers.delete(event.pointerId);
    if (wasDown && moved <= 4 && event.type === "pointerup") onClick?.(place(event));
  };
  canvas.addEventListener("pointerup", end);
  canvas.addEventListener("pointercancel", end);
  canvas.addEventListener("pointerleave", onLeave);
  canvas.addEventListener(
    "wheel",
    (event) => {
      const at = place(event);
      const factor = Math.exp(Math.max(-1, Math.min(1, event.deltaY / 250)));
      const isUp = isUpToo && event.shiftKey;
      const isAll = isUp ? view.high - view.low >= view.device.height : isWhole();
      // If the chart shows everything already, the page scrolls.
      if (factor > 1 && isAll) return;
      event.preventDefault();
      if (isUp) zoomUp(factor, at.up);
      else zoomAcross(factor, Math.max(0, Math.min(1, at.right)));
    },
    { passive: false },
  );
}

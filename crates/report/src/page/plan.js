// Arrays as rectangles over time and address: drawing, hovering and selecting.

let colourBy = "scope";
// Arrays of the device by colour.
let buckets = [];

// Colours show scopes, unless there is only one.
function usualColour() {
  return new Set(Array.from(view.device.own, (i) => run.kinds.scope[run.kind[i]])).size > 1 ? "scope" : "served";
}

// The seven scopes with the highest peaks have a colour each. All other scopes share one, and arrays outside scopes have their own.
const [OTHERS, OUTSIDE] = [7, 8];
const NAMED = run.scopes.filter((row) => row[0] !== "");
const RANKS = new Map(NAMED.map((row, rank) => [row[0], Math.min(rank, OTHERS)]));
const SERVED_COLOURS = [0, 3, 2, 1];

function colourOf(i) {
  return colourBy === "scope" ? RANKS.get(scopeOf(run.kind[i])) ?? OUTSIDE : SERVED_COLOURS[run.servedBy[i]];
}

function sortByColour() {
  buckets = Array.from({ length: OUTSIDE + 1 }, () => []);
  for (const i of view.device.own) buckets[colourOf(i)].push(i);
  const entry = (colour, text) => ({ colour: `--s${colour}`, text, onclick: () => searchFor(text) });
  const scopes = NAMED.slice(0, OTHERS).map((row, rank) => entry(rank, row[0]));
  if (NAMED.length > OTHERS) scopes.push({ colour: `--s${OTHERS}`, text: `${NAMED.length - OTHERS} more scopes` });
  if (NAMED.length < run.scopes.length) scopes.push(entry(OUTSIDE, scopeText("")));
  const served = run.served.map((word, i) => ({ colour: `--s${SERVED_COLOURS[i]}`, text: word }));
  legend("plan-legend", colourBy === "scope" ? scopes : served);
}

// Where an array lies on the canvas.
function boxOf(frame, i) {
  const scale = frame.width / (view.to - view.from);
  const height = frame.height / (view.high - view.low);
  const left = frame.left + (across(run.starts[i]) - view.from) * scale;
  const right = frame.left + (across(run.ends[i]) - view.from) * scale;
  const bottom = frame.top + frame.height - (run.offset[i] - view.low) * height;
  return { left, right, top: bottom - run.bytes[i] * height, bottom };
}

function paintPlan() {
  const chart = surface("plan");
  const { paper, frame } = chart;
  drawUp(chart, view.low, view.high, BINARY, bytesText);
  drawAcross(chart);
  paper.save();
  paper.beginPath();
  paper.rect(frame.left, frame.top, frame.width, frame.height);
  paper.clip();
  if (matching) paintArrays(chart, false, 0.13);
  paintArrays(chart, true, 1);
  drawBands(chart);
  outline(chart, view.hover, 1.5);
  outline(chart, view.selected, 2.5);
  paper.restore();
  drawEntries(chart);
  drawCursor(chart);
}

function paintArrays({ paper, frame }, isMatch, alpha) {
  const [right, bottom] = [frame.left + frame.width, frame.top + frame.height];
  const labels = [];
  paper.globalAlpha = alpha;
  buckets.forEach((bucket, colour) => {
    paper.fillStyle = colours.series[colour];
    for (const i of bucket) {
      if (matching && (matching[run.kind[i]] === 1) !== isMatch) continue;
      const box = boxOf(frame, i);
      if (box.right < frame.left || box.left > right || box.bottom < frame.top || box.top > bottom) continue;
      // A line of ground stays between neighbours that have room for it.
      const [width, height] = [box.right - box.left, box.bottom - box.top];
      const [w, h] = [Math.max(width > 4 ? width - 1 : width, 1), Math.max(height > 4 ? height - 1 : height, 1)];
      paper.fillRect(box.left, box.bottom - h, w, h);
      if (w > 56 && h > 15 && alpha === 1) labels.push([box, i, colour]);
    }
  });
  paper.globalAlpha = 1;
  labels.forEach(([box, i, colour]) => label(paper, frame, box, i, colour));
}

function label(paper, frame, box, i, colour) {
  const [left, right] = [Math.max(box.left, frame.left), Math.min(box.right, frame.left + frame.width)];
  const text = kindText(run.kind[i]);
  if (paper.measureText(text).width > right - left - 12) return;
  paper.fillStyle = isBright(colours.series[colour]) ? "#000" : "#fff";
  paper.textAlign = "center";
  paper.textBaseline = "middle";
  const [top, bottom] = [Math.max(box.top, frame.top), Math.min(box.bottom, frame.top + frame.height)];
  if (bottom - top > 15) paper.fillText(text, (left + right) / 2, (top + bottom) / 2);
}

// Whether black is read better than white on a colour.
function isBright(colour) {
  const part = (at) => (parseInt(colour.slice(at, at + 2), 16) / 255) ** 2.2;
  return 0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5) > 0.18;
}

// Borders between stretches of addresses that do not lie side by side, with their addresses where there is room.
function drawBands({ paper, frame }) {
  let last = Infinity;
  paper.textAlign = "left";
  paper.textBaseline = "bottom";
  for (const [address, offset] of view.device.bands) {
    const y = frame.top + frame.height - ((offset - view.low) / (view.high - view.low)) * frame.height;
    if (y < frame.top || y > frame.top + frame.height || last - y < 24) continue;
    last = y;
    paper.save();
    paper.setLineDash([2, 4]);
    paper.strokeStyle = colours.quiet;
    paper.beginPath();
    paper.moveTo(frame.left, Math.round(y) - 0.5);
    paper.lineTo(frame.left + frame.width, Math.round(y) - 0.5);
    paper.stroke();
    paper.restore();
    if (view.device.bands.length > 1 && frame.width > 420) tag(paper, frame, y, address);
  }
}

// Above, where outermost scopes are entered, as far as there is room, with their names if these differ.
function drawEntries({ paper, frame }) {
  const { starts, scopes } = run.marks;
  const x = (event) => frame.left + ((across(event) - view.from) / (view.to - view.from)) * frame.width;
  const seen = [...starts.keys()].filter((i) => across(starts[i]) >= view.from && across(starts[i]) < view.to);
  if (seen.length * 5 > frame.width) return;
  const isNamed = new Set(seen.map((i) => scopes[i])).size > 1;
  paper.textAlign = "left";
  paper.textBaseline = "alphabetic";
  paper.fillStyle = colours.quiet;
  seen.forEach((i, place) => {
    const left = x(starts[i]);
    paper.fillRect(Math.round(left), frame.top - 16, 1, 16);
    const text = run.texts[scopes[i]];
    const next = place + 1 < seen.length ? x(starts[seen[place + 1]]) : frame.left + frame.width;
    if (isNamed && left + paper.measureText(text).width + 10 < next) paper.fillText(text, left + 5, frame.top - 6);
  });
}

function tag(paper, frame, y, text) {
  const width = paper.measureText(text).width + 10;
  paper.fillStyle = colours.card;
  paper.globalAlpha = 0.85;
  paper.fillRect(frame.left, y - 18, width, 17);
  paper.globalAlpha = 1;
  paper.fillStyle = colours.quiet;
  paper.fillText(text, frame.left + 5, y - 2);
}

function outline({ paper, frame }, i, width) {
  if (i < 0) return;
  const box = boxOf(frame, i);
  paper.strokeStyle = colours.text;
  paper.lineWidth = width;
  paper.strokeRect(box.left - 1, box.top - 1, Math.max(box.right - box.left, 1) + 1, Math.max(box.bottom - box.top, 1) + 1);
}

// The properties of an array, as pairs of a name and a text.
function facts(i) {
  const kind = run.kind[i];
  const { kinds, texts } = run;
  const end = run.isFreed[i] ? run.ends[i] : run.events - 1;
  const time = run.times[end] - run.times[run.starts[i]];
  // Not each event has a time of its own.
  const life = plural(run.ends[i] - run.starts[i], "event", "events") + (time > 0 ? `, ${timeText(time)}` : "");
  const pairs = [
    ["Scope", scopeText(scopeOf(kind))],
    ["Source", texts[kinds.site[kind]]],
    ["Scope at", texts[kinds.scope_site[kind]]],
    ["Array", kindText(kind)],
    ["Bytes", `${bytesText(run.bytes[i])}${run.bytes[i] >= 1024 ? ` (${countText(run.bytes[i])})` : ""}`],
    ["Lifetime", run.isFreed[i] ? life : `${life}, until the end`],
    ["Allocated", `event ${countText(run.starts[i])}, at ${timeText(run.times[run.starts[i]])}`],
    ["Served by", run.served[run.servedBy[i]]],
    ["Why not by plan", run.cause[i] ? run.causes[run.cause[i] - 1] : ""],
    ["Address", addressOf(view.device, i)],
    ["Thread, stream", `${kinds.thread[kind]}, ${kinds.stream[kind]}`],
    ["Called from", texts[kinds.stack[kind]]],
  ];
  return pairs.filter(([, text]) => text !== "");
}

function hover(at) {
  const device = view.device;
  const isInside = at.right >= 0 && at.right <= 1 && at.up >= 0 && at.up <= 1;
  view.cursor = isInside ? view.from + at.right * (view.to - view.from) : NaN;
  view.hover = isInside ? arrayUnder(device, at) : -1;
  tip(at);
  readCharts();
  redraw();
}

// The array under the pointer, or within two pixels of it.
function arrayUnder(device, at) {
  const up = view.low + at.up * (view.high - view.low);
  const event = eventAt(view.cursor);
  const exact = arrayAt(device, event, event + 0.5, up, up);
  if (exact >= 0) return exact;
  const [wide, high] = [((view.to - view.from) / at.width) * 2, ((view.high - view.low) / at.height) * 2];
  return arrayAt(device, eventAt(view.cursor - wide), eventAt(view.cursor + wide) + 0.5, up - high, up + high);
}

function tip(at) {
  const box = byId("tip");
  box.hidden = view.hover < 0;
  if (box.hidden) return;
  const shown = facts(view.hover);
  const lines = shown.slice(1).map(([word, text]) => element("div", {}, `${word}: ${text}`));
  box.replaceChildren(element("b", {}, shown[0][1]), ...lines);
  const stage = byId("plan");
  const x = at.x + 16 + box.offsetWidth > stage.clientWidth ? at.x - 16 - box.offsetWidth : at.x + 16;
  const y = Math.min(at.y + 12, stage.clientHeight - box.offsetHeight);
  box.style.left = `${Math.max(0, x)}px`;
  box.style.top = `${Math.max(0, y) + stage.offsetTop}px`;
}

function select(i) {
  view.selected = i;
  const pair = ([word, text]) => element("div", {}, element("dt", {}, word), element("dd", {}, text));
  const none = element("p", { class: "quiet" }, "No array is selected. Click one, tap one, or press N.");
  byId("selected").replaceChildren(i < 0 ? none : element("dl", {}, ...facts(i).map(pair)));
  redraw();
}

// Selects an array, and moves what is seen to where it is.
function goTo(i) {
  const [from, to] = [across(run.starts[i]), across(run.ends[i])];
  const length = view.to - view.from;
  const isWide = to - from >= length / 60 && to - from <= length;
  if (!isWide) look((from + to) / 2, Math.max((to - from) * 12, (bounds()[1] - bounds()[0]) / 2000));
  const shown = view.to - view.from;
  if (from < view.from || to > view.to || !isWide) look((from + to) / 2 - shown / 2, shown);
  const height = view.high - view.low;
  const isHigh = run.bytes[i] >= height / 60;
  const wanted = isHigh ? height : run.bytes[i] * 24;
  lookUp(run.offset[i] + run.bytes[i] / 2 - wanted / 2, wanted);
  select(i);
}

// Selects the next array in order, or the one before, among those that are searched for.
function step(by) {
  const { own } = view.device;
  const isFound = (i) => !matching || matching[run.kind[i]] === 1;
  let at = own.indexOf(view.selected);
  if (at < 0) at = by > 0 ? -1 : own.length;
  for (let turn = 0; turn < own.length; turn++) {
    at = (at + by + own.length) % own.length;
    if (isFound(own[at])) return goTo(own[at]);
  }
}

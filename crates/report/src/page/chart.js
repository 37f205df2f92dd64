// Memory over time: live, reserved and idle bytes, and how many times as much is reserved as is live.

// More is drawn as this at most, as a run that ends has next to nothing alive.
const MOST_RATIO = 4;

let limitBytes = NaN;
let ratioSeries = null;
let ratioTop = 2;

// The least and the most of a series for each pixel across, with what it was before where nothing happened.
function columnsOf(frame, series) {
  const columns = Math.max(1, Math.floor(frame.width));
  const [least, most] = [new Float64Array(columns).fill(NaN), new Float64Array(columns).fill(NaN)];
  const scale = (view.to - view.from) / columns;
  let event = eventAt(view.from);
  for (let column = 0; column < columns; column++) {
    const last = Math.max(event, eventAt(view.from + (column + 1) * scale));
    for (; event <= last; event++) {
      const value = series[event];
      if (!(least[column] <= value)) least[column] = value;
      if (!(most[column] >= value)) most[column] = value;
    }
    event = last;
  }
  return { least, most };
}

// A line at the most of each pixel, over a pale band down to the least.
function line({ paper, frame }, { least, most }, [low, high], colour, width = 1.5) {
  const y = (value) => frame.top + frame.height * (1 - (Math.min(value, high) - low) / (high - low));
  paper.fillStyle = colour;
  paper.globalAlpha = 0.3;
  most.forEach((value, column) => {
    if (least[column] < value) paper.fillRect(frame.left + column, y(value), 1, y(least[column]) - y(value));
  });
  paper.globalAlpha = 1;
  paper.beginPath();
  let isDown = false;
  most.forEach((value, column) => {
    if (Number.isNaN(value)) return (isDown = false);
    const x = frame.left + column + 0.5;
    if (isDown) paper.lineTo(x, y(value));
    else paper.moveTo(x, y(value));
    isDown = true;
  });
  paper.strokeStyle = colour;
  paper.lineWidth = width;
  paper.lineJoin = "round";
  paper.stroke();
}

function area({ paper, frame }, { most }, high, colour) {
  const bottom = frame.top + frame.height;
  paper.fillStyle = colour;
  paper.beginPath();
  paper.moveTo(frame.left, bottom);
  most.forEach((value, column) => {
    const y = bottom - ((value || 0) / high) * frame.height;
    paper.lineTo(frame.left + column, y);
    paper.lineTo(frame.left + column + 1, y);
  });
  paper.lineTo(frame.left + most.length, bottom);
  paper.fill();
}

function paintMemory() {
  const chart = surface("memory");
  const device = view.device;
  const top = Math.max(device.peakLive, device.peakReserved || 0);
  const high = Math.max(1, top * 1.08);
  drawUp(chart, 0, high, BINARY, bytesText);
  drawAcross(chart);
  const reserved = columnsOf(chart.frame, device.reserved);
  const live = columnsOf(chart.frame, device.live);
  area(chart, reserved, high, colours.idle);
  area(chart, live, high, colours["accent-soft"]);
  line(chart, live, [0, high], colours.accent);
  line(chart, reserved, [0, high], colours.text, 1.25);
  drawLimit(chart, top, high);
  drawCursor(chart);
}

// A limit that the run exceeded.
function drawLimit({ paper, frame }, top, high) {
  if (!(limitBytes < top)) return;
  const y = frame.top + frame.height * (1 - limitBytes / high);
  paper.save();
  paper.setLineDash([6, 4]);
  paper.strokeStyle = colours.bad;
  paper.beginPath();
  paper.moveTo(frame.left, y);
  paper.lineTo(frame.left + frame.width, y);
  paper.stroke();
  paper.restore();
}

function ratios() {
  const { live, reserved } = view.device;
  return live.map((bytes, event) => (bytes > 0 ? reserved[event] / bytes : NaN));
}

// The top of the chart: all but the highest hundredth lies below it.
function topOf(series) {
  const known = series.filter((ratio) => ratio > 0).sort();
  const high = known[Math.floor(known.length * 0.99)] ?? 1;
  return Math.min(MOST_RATIO, Math.max(1.5, Math.ceil(high * 5) / 5));
}

function paintRatio() {
  const chart = surface("ratio");
  const { paper, frame } = chart;
  if (Number.isNaN(view.device.peakReserved)) return;
  const low = 0.9;
  drawUp(chart, low, ratioTop, [0.1, 0.2, 0.5, 1], (tick) => `${tick.toFixed(1)} ×`);
  drawAcross(chart);
  line(chart, columnsOf(frame, ratioSeries), [low, ratioTop], colours.accent, 1.25);
  const least = frame.top + frame.height * (1 - (1 - low) / (ratioTop - low));
  paper.fillStyle = colours.quiet;
  paper.fillRect(frame.left, Math.round(least), frame.width, 1);
  drawCursor(chart);
}

// What the charts say where the pointer is.
function readCharts() {
  const { live, reserved } = view.device;
  // With no pointer there, what is said is that of the peak.
  const isPeak = Number.isNaN(view.cursor);
  const event = isPeak ? view.device.peakEvent : eventAt(view.cursor);
  const [used, held] = [live[event], reserved[event]];
  const parts = [`${isPeak ? "Peak: event" : "Event"} ${countText(event)}`, `at ${timeText(run.times[event])}`, `live ${bytesText(used)}`];
  if (!Number.isNaN(held)) parts.push(`idle ${bytesText(Math.max(0, held - used))}`, `reserved ${bytesText(held)}`);
  byId("memory-value").textContent = parts.join(" · ");
  const isRatio = used > 0 && !Number.isNaN(held);
  byId("ratio-value").textContent = isRatio ? `${isPeak ? "Peak: event" : "Event"} ${countText(event)} · reserved ${(held / used).toFixed(2)} × live` : "";
}

// A chart takes gestures, and says what it shows where the pointer is.
function startCharts() {
  for (const id of ["memory", "ratio"]) {
    gestures(byId(id), {
      onPoint: (at) => {
        view.cursor = at.right >= 0 && at.right <= 1 ? view.from + at.right * (view.to - view.from) : NaN;
        readCharts();
        redraw();
      },
      onLeave: () => {
        view.cursor = NaN;
        readCharts();
        redraw();
      },
    });
    byId(id).style.touchAction = "pan-y";
  }
  const isKnown = !Number.isNaN(view.device.peakReserved);
  const entries = [{ colour: "--accent", text: "live" }];
  if (isKnown) entries.push({ colour: "--idle", text: "idle" }, { colour: "--text", text: "reserved" });
  legend("memory-legend", entries);
  painters.push(paintMemory, paintRatio);
}

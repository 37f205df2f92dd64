// Memory over time: live, idle and reserved bytes, and reserved ÷ live.

// The chart cuts higher ratios off, since hardly anything is live as a run ends.
const MOST_RATIO = 4;

let limitBytes = NaN;
let ratioSeries = null;
let ratioTop = 2;

// The minimum and the maximum of a series for each column of pixels. A column without an event has the value before.
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

// A line at the maximum of each column, over a pale band down to the minimum.
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

// A limit below the peak.
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

// The top of the chart: 99% of the values lie below it.
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

// Shows the values of the charts at the pointer.
function readCharts() {
  const { live, reserved } = view.device;
  // Without a pointer it shows the values of the peak.
  const isPeak = Number.isNaN(view.cursor);
  const event = isPeak ? view.device.peakEvent : eventAt(view.cursor);
  const [used, held] = [live[event], reserved[event]];
  const parts = [`${isPeak ? "Peak: event" : "Event"} ${countText(event)}`, `at ${timeText(run.times[event])}`, `live ${bytesText(used)}`];
  if (!Number.isNaN(held)) parts.push(`idle ${bytesText(Math.max(0, held - used))}`, `reserved ${bytesText(held)}`);
  byId("memory-value").textContent = parts.join(" · ");
  const isRatio = used > 0 && !Number.isNaN(held);
  byId("ratio-value").textContent = isRatio ? `${isPeak ? "Peak: event" : "Event"} ${countText(event)} · reserved ÷ live ${(held / used).toFixed(2)}` : "";
}

// A chart takes gestures, and shows the values at the pointer.
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
  }
  const isKnown = !Number.isNaN(view.device.peakReserved);
  const entries = [{ colour: "--accent", text: "live" }];
  if (isKnown) entries.push({ colour: "--idle", text: "idle" }, { colour: "--text", text: "reserved" });
  legend("memory-legend", entries);
  painters.push(paintMemory, paintRatio);
}

// The summary and the tables: who holds the memory, what lies beside plans, and what each scope did.

const FIRST_ROWS = matchMedia("(max-width: 640px)").matches ? 6 : 12;

// A table whose columns are a name and how a row's cell is shown; numbers stand to the right. What is beyond the first rows is
// shown when asked for.
function table(caption, columns, rows) {
  const cell = ([name, show, isName], row) => {
    const shown = [show(row)].flat();
    return element("td", { role: "cell", class: isName ? "name" : "n", "data-column": name }, ...shown);
  };
  const line = (row) => element("tr", { role: "row" }, ...columns.map((column) => cell(column, row)));
  const heads = columns.map(([name, , isName]) => element("th", { role: "columnheader", scope: "col", class: isName ? "" : "n" }, name));
  const body = element("tbody", { role: "rowgroup" }, ...rows.slice(0, FIRST_ROWS).map(line));
  const head = element("thead", { role: "rowgroup" }, element("tr", { role: "row" }, ...heads));
  const made = element("table", { role: "table" }, element("caption", {}, caption), head, body);
  const parts = [element("div", { class: "table" }, made)];
  if (rows.length > FIRST_ROWS) {
    const more = element("button", { type: "button", class: "more" }, `Show all ${countText(rows.length)} rows`);
    more.addEventListener("click", () => {
      body.append(...rows.slice(FIRST_ROWS).map(line));
      more.remove();
    });
    parts.push(more);
  }
  return parts;
}

function bar(share) {
  const filled = element("span");
  filled.style.width = `${Math.min(100, share * 100)}%`;
  return element("span", { class: "bar", "aria-hidden": "true" }, filled);
}

function named(scope, below) {
  return below ? [scopeText(scope), element("small", {}, below)] : scopeText(scope);
}

function tile(word, value, about) {
  return element("div", {}, element("dt", {}, word), element("dd", {}, value, element("small", {}, about)));
}

function showSummary() {
  const device = view.device;
  const inScopes = run.scopes.filter((row) => row[0] !== "");
  const sum = (of) => inScopes.reduce((sum, row) => sum + of(row), 0);
  const [arrays, planned] = [sum((row) => row[3]), sum((row) => row[5][0])];
  const isKnown = !Number.isNaN(device.peakReserved);
  const tiles = [
    tile("Peak live", bytesText(device.peakLive), `at event ${countText(device.peakEvent)}`),
    isKnown
      ? tile("Peak reserved", bytesText(device.peakReserved), `${timesText(device.peakReserved, device.peakLive)} × the peak live`)
      : tile("Peak reserved", "–", "the trace does not tell"),
    tile("Allocations", countText(device.own.length), device.own.length === run.count ? "in all" : `of ${countText(run.count)} on all devices`),
    tile("Served by plan", shareText(planned / arrays), `of ${plural(arrays, "array", "arrays")} in scopes`),
    isKnown ? tile("Reserved changed", plural(device.calls, "time", "times"), "as memory was taken or given back") : "",
    tile("Scopes", countText(inScopes.length), plural(sum((row) => row[2]), "entry", "entries")),
  ];
  byId("summary").replaceChildren(...tiles.filter((tile) => tile !== ""));
  const threads = new Set(run.kinds.thread).size;
  const about = [plural(run.events, "event", "events"), timeText(run.events ? run.times[run.events - 1] : 0), plural(threads, "thread", "threads")];
  if (run.devices.length > 1) about.push(plural(run.devices.length, "device", "devices"));
  if (run.lost > 0) about.push(`${plural(run.lost, "event", "events")} before these had no room in the trace`);
  byId("about").textContent = about.join(" · ");
}

function showHolders() {
  const { holders, peakLive, peakEvent } = view.device;
  const columns = [
    ["Scope", (row) => named(row[0]), true],
    ["Array", (row) => arrayText(row[1], row[2]), true],
    ["Arrays", (row) => countText(row[3])],
    ["Bytes", (row) => bytesText(row[4])],
    ["Share", (row) => [shareText(row[4] / peakLive), bar(row[4] / peakLive)]],
  ];
  const caption = `Alive at event ${countText(peakEvent)}, when ${bytesText(peakLive)} were in use${beyond(holders)}`;
  byId("holders").replaceChildren(...table(caption, columns, holders.rows));
}

function beyond({ left_out: leftOut }) {
  return leftOut > 0 ? `. ${plural(leftOut, "row", "rows")} with less are left out.` : ".";
}

function showBeside() {
  const { rows } = run.beside;
  const note = byId("beside-note");
  if (rows.length === 0) {
    const hasPlan = run.scopes.some((row) => row[5][0] > 0);
    note.textContent = hasPlan ? "Plans served every array of the scopes that have one." : "No scope had a plan in this trace.";
    byId("beside").replaceChildren();
    return;
  }
  const sums = new Map();
  let all = 0;
  for (const row of rows) {
    sums.set(row[3], (sums.get(row[3]) ?? 0) + row[5]);
    all += row[5];
  }
  const causes = [...sums].sort((one, other) => other[1] - one[1]).map(([cause, count]) => `${run.causes[cause]} (${countText(count)})`);
  note.textContent = `${plural(all, "array was", "arrays were")} served otherwise in scopes that have a plan: ${causes.join("; ")}. The cause is the first that the trace proves.`;
  const columns = [
    ["Scope", (row) => named(row[0]), true],
    ["Array", (row) => arrayText(row[1], row[2]), true],
    ["Why", (row) => run.causes[row[3]], true],
    ["Served by", (row) => row[4]],
    ["Arrays", (row) => countText(row[5])],
    ["Bytes in all", (row) => bytesText(row[6])],
  ];
  byId("beside").replaceChildren(...table(`By scope, type and shape, the most bytes first${beyond(run.beside)}`, columns, rows));
}

function showScopes() {
  const columns = [
    ["Scope", (row) => named(row[0], row[1]), true],
    ["Entries", (row) => (row[0] === "" ? "–" : countText(row[2]))],
    ["Arrays", (row) => countText(row[3])],
    ["By plan", (row) => shareText(row[5][0] / row[3])],
    ["List", (row) => countText(row[5][1])],
    ["Range", (row) => countText(row[5][2])],
    ["Device", (row) => countText(row[5][3])],
    ["Bytes in all", (row) => bytesText(row[4])],
    ["Most live", (row) => bytesText(row[6])],
  ];
  const isMany = run.devices.length > 1 ? " On all devices together." : "";
  byId("scopes").replaceChildren(...table(`What each scope allocated, and what served it.${isMany}`, columns, run.scopes));
}

// The addresses at the peak in one line: what is in use, and the holes in between.
function paintStrip() {
  const { paper, frame } = surface("strip");
  const device = view.device;
  const scale = frame.width / device.height;
  paper.fillStyle = colours.hole;
  paper.fillRect(0, 0, frame.width, frame.height);
  buckets.forEach((bucket, colour) => {
    paper.fillStyle = colours.series[colour];
    for (const i of bucket) {
      if (run.starts[i] > device.peakEvent || run.ends[i] <= device.peakEvent) continue;
      const width = run.bytes[i] * scale;
      paper.fillRect(run.offset[i] * scale, 0, Math.max(width > 3 ? width - 0.5 : width, 0.5), frame.height);
    }
  });
}

function showFragmentation() {
  const device = view.device;
  const isKnown = !Number.isNaN(device.peakReserved);
  const held = device.reserved[device.peakEvent];
  const idle = `${bytesText(held)} were reserved for ${bytesText(device.peakLive)} that were alive at the peak: ${timesText(held, device.peakLive)} times as much. Reserved over live, drawn up to ${ratioTop} times:`;
  byId("fragmentation-note").textContent = isKnown ? idle : "The trace does not tell what was reserved. One written by a newer version does.";
  byId("ratio").hidden = !isKnown;
  const { count, bytes, longest } = device.holes;
  const most = count > 0 ? `, the longest of ${bytesText(longest[0][2])} at ${longest[0][0]}` : "";
  byId("holes-note").textContent = `Filled: arrays alive at the peak. Empty: what is free. ${plural(count, "hole lies", "holes lie")} between arrays, of ${bytesText(bytes)} in all${most}. Gaps under 256 bytes are rounding.`;
  const gaps = device.bands.length - 1;
  byId("plan-note").textContent = `Upwards: addresses. Marks on top: a scope is entered.${gaps > 0 ? ` ${plural(gaps, "gap that no array ever used is", "gaps that no array ever used are")} left out; dotted lines are where the addresses go on after one.` : ""} Wheel or pinch zooms, with Shift the addresses; drag to move.`;
}

// The summary and the tables: failed allocations, the largest live arrays, the arrays without a plan, and the scopes.

const FIRST_ROWS = matchMedia("(max-width: 640px)").matches ? 6 : 12;

// A table. A column is a name and a function that shows the cell of a row; numbers stand to the right. A button shows the rows after
// the first ones.
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

function named(scope, text) {
  return [scopeText(scope), ...below(text)];
}

// A second line of a cell, such as a source line.
function below(text) {
  return text ? [element("small", {}, text)] : [];
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
      ? tile("Peak reserved", bytesText(device.peakReserved), `${timesText(device.peakReserved, device.peakLive)} × peak live`)
      : tile("Peak reserved", "–", "not in this trace"),
    tile("Allocations", countText(device.own.length), device.own.length === run.count ? "in total" : `of ${countText(run.count)} on all devices`),
    tile("Served by plan", shareText(planned / arrays), `of ${plural(arrays, "array", "arrays")} in scopes`),
    isKnown ? tile("Reserved changed", plural(device.calls, "time", "times"), "by calls of the device") : "",
    device.failures > 0 ? tile("Failed", plural(device.failures, "allocation", "allocations"), "found no memory") : "",
    tile("Scopes", countText(inScopes.length), plural(sum((row) => row[2]), "entry", "entries")),
  ];
  byId("summary").replaceChildren(...tiles.filter((tile) => tile !== ""));
  const threads = new Set(run.kinds.thread).size;
  const about = [plural(run.events, "event", "events"), timeText(run.events ? run.times[run.events - 1] : 0), plural(threads, "thread", "threads")];
  if (run.devices.length > 1) about.push(plural(run.devices.length, "device", "devices"));
  if (run.lost > 0) about.push(`the trace lost ${plural(run.lost, "earlier event", "earlier events")} for lack of room`);
  byId("about").textContent = about.join(" · ");
}

// Groups of live arrays, and the share of each in all of their bytes.
function liveTable(caption, groups, all) {
  const columns = [
    ["Scope", (row) => named(row[0]), true],
    ["Array", (row) => [arrayText(row[1], row[2]), ...below(row[5])], true],
    ["Arrays", (row) => countText(row[3])],
    ["Bytes", (row) => bytesText(row[4])],
    ["Share", (row) => [shareText(row[4] / all), bar(row[4] / all)]],
  ];
  return table(`${caption}: ${bytesText(all)} in total${beyond(groups)}`, columns, groups.rows);
}

function showHolders() {
  const { holders, peakLive, peakEvent } = view.device;
  byId("holders").replaceChildren(...liveTable(`Arrays that are live at event ${countText(peakEvent)}`, holders, peakLive));
}

// Weights and caches belong here. A row whose number of arrays is about that of the steps is a leak.
function showLeft() {
  const { left } = view.device;
  const all = left.rows.reduce((sum, row) => sum + row[4], 0);
  byId("left-note").textContent = all > 0 ? "The trace has no drop of these arrays. If a row has about as many arrays as the run had steps, the program keeps one more in each step." : "Every array was dropped before the trace ended.";
  byId("left").replaceChildren(...(all > 0 ? liveTable("Arrays without a drop", left, all) : []));
}

// The failures of the traced run itself. Each row has the live and reserved memory at its first failure.
function showFailed() {
  const { failed, failures, live, reserved } = view.device;
  byId("failed-section").hidden = failures === 0;
  const columns = [
    ["Scope", (row) => named(row[0]), true],
    ["Array", (row) => [arrayText(row[1], row[2]), ...below(row[5])], true],
    ["Failures", (row) => countText(row[3])],
    ["Bytes each", (row) => bytesText(row[4])],
    ["First event", (row) => countText(row[6])],
    ["Live then", (row) => bytesText(live[row[6]])],
    ["Reserved then", (row) => (Number.isNaN(reserved[row[6]]) ? "–" : bytesText(reserved[row[6]]))],
  ];
  const more = failed.left_out > 0 ? ` ${plural(failed.left_out, "later row", "later rows")} are not shown.` : "";
  const caption = `${plural(failures, "allocation", "allocations")} of the traced run failed. The earliest row comes first.${more}`;
  byId("failed").replaceChildren(...(failures > 0 ? table(caption, columns, failed.rows) : []));
}

function beyond({ left_out: leftOut }) {
  return leftOut > 0 ? `. ${plural(leftOut, "row", "rows")} with fewer bytes are not shown.` : ".";
}

function showBeside() {
  const { rows } = run.beside;
  const note = byId("beside-note");
  if (rows.length === 0) {
    const hasPlan = run.scopes.some((row) => row[5][0] > 0);
    note.textContent = hasPlan ? "Plans served every array of the scopes that have a plan." : "No scope had a plan in this trace.";
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
  note.textContent = `In scopes with a plan, the plan did not serve ${plural(all, "array", "arrays")}: ${causes.join("; ")}. If several causes apply, the page names the first one.`;
  const columns = [
    ["Scope", (row) => named(row[0]), true],
    ["Array", (row) => [arrayText(row[1], row[2]), ...below(row[7])], true],
    ["Why", (row) => run.causes[row[3]], true],
    ["Served by", (row) => row[4]],
    ["Arrays", (row) => countText(row[5])],
    ["Total bytes", (row) => bytesText(row[6])],
  ];
  byId("beside").replaceChildren(...table(`By scope, type, shape and source line, the most bytes first${beyond(run.beside)}`, columns, rows));
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
    ["Total bytes", (row) => bytesText(row[4])],
    ["Peak live", (row) => bytesText(row[6])],
  ];
  const isMany = run.devices.length > 1 ? " On all devices together." : "";
  byId("scopes").replaceChildren(...table(`The allocations of each scope, and what served them.${isMany}`, columns, run.scopes));
}

// The addresses at the peak in one line: live arrays, and the holes between them.
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

function showOverhead() {
  const device = view.device;
  const isKnown = !Number.isNaN(device.peakReserved);
  const reserved = device.reserved[device.peakEvent];
  const times = timesText(reserved, device.peakLive);
  const text = `At the peak the device reserved ${bytesText(reserved)} for ${bytesText(device.peakLive)} of live arrays: ${times} times as much; 1.0 is ideal. The chart shows values up to ${ratioTop}.`;
  byId("overhead-note").textContent = isKnown ? text : "This trace does not say how much memory was reserved: no memory was taken or given back while it was on. Begin a trace before the first allocation.";
  byId("ratio").hidden = !isKnown;
  byId("holes-note").textContent = holesText(device.holes);
  const gaps = device.bands.length - 1;
  const left = gaps > 0 ? ` The chart leaves out ${plural(gaps, "gap", "gaps")} that no array ever used; a dotted line marks each.` : "";
  byId("plan-note").textContent = `The vertical axis shows addresses. The marks above the chart show where a scope is entered.${left} Drag to move. Zoom with the wheel or two fingers; hold Shift to zoom addresses.`;
}

function holesText({ count, bytes, longest }) {
  const filled = "Filled: live arrays. Empty: free addresses.";
  if (count === 0) return `${filled} No hole of 256 bytes or more lies between live arrays: the fragmentation is 0%.`;
  const [address, , most] = longest[0];
  const share = shareText(1 - most / bytes);
  return (
    `${filled} Between live arrays ${count === 1 ? "is" : "are"} ${plural(count, "hole", "holes")} with ${bytesText(bytes)} in total; ` +
    `the longest has ${bytesText(most)}, at ${address}. The fragmentation, 1 − longest hole ÷ all holes, is ${share}. Holes under 256 bytes are not counted.`
  );
}

// The effect of a limit. The trace proves that a limit below the peak of live memory is too low. Replays show the effect of others.

function showLimit() {
  const device = view.device;
  const isKnown = !Number.isNaN(device.peakReserved);
  const all = isKnown ? device.peakReserved : device.peakLive;
  limitBytes = (all * Number(byId("limit").value)) / 100;
  const of = isKnown ? "peak reserved" : "peak live";
  byId("limit-value").textContent = `${byId("limit").value}% of the ${of}: ${bytesText(limitBytes)}`;
  const isTooLow = limitBytes < device.peakLive;
  byId("limit-says").replaceChildren(...(isTooLow ? saysFailure(device) : saysEnough(device, isKnown)));
  const rows = isTooLow ? toGo(device) : [];
  byId("limit-table").replaceChildren(...(rows.length ? goTable(device, rows) : []));
  redraw();
}

// The replays of a device; the page has those of one device.
function replaysOf(device) {
  return run.limits.device === device.number ? run.limits.rows : [];
}

// What the replay of the largest limit that is not above this one says. A replay decides; the trace alone does not prove that a limit
// is enough.
function replayText(device) {
  const row = replaysOf(device).find(([limit]) => limit <= limitBytes);
  if (!row) return "No replay of this limit is on the page.";
  const outcome = row[1] ? `${plural(row[1], "allocation finds", "allocations find")} no memory` : "every allocation finds memory";
  return `In the replay with a limit of ${bytesText(row[0])}, ${outcome}.`;
}

function saysEnough(device, isKnown) {
  const row = replaysOf(device).find(([limit]) => limit <= limitBytes);
  const spare = bytesText(limitBytes - device.peakLive);
  const isWhole = isKnown && limitBytes >= device.peakReserved;
  const own = isWhole ? "The run never reserved more than this limit. " : `The peak of live memory fits, and ${spare} are left. `;
  const idle = isKnown && !isWhole ? `The run would have had to return ${bytesText(device.peakReserved - limitBytes)} of idle memory. ` : "";
  const [verdict, kind] = row && row[1] === 0 ? ["Enough: ", "good"] : row ? ["Maybe too low: ", "bad"] : ["Maybe enough: ", "good"];
  return [element("p", {}, element("span", { class: kind }, verdict), own, idle, replayText(device))];
}

// The first event after which the live memory exceeds the limit.
function firstOver(device) {
  return device.live.findIndex((bytes) => bytes > limitBytes);
}

function saysFailure(device) {
  const event = firstOver(device);
  const i = device.own.find((i) => run.starts[i] === event);
  const over = device.live.reduce((count, bytes) => count + (bytes > limitBytes ? 1 : 0), 0);
  const kind = run.kind[i];
  const text =
    `The first failure is at event ${countText(event)} (${timeText(run.times[event])}), in ${scopeText(scopeOf(kind))}: ` +
    `${kindText(kind)} needs ${bytesText(run.bytes[i])}, and ${bytesText(device.live[event] - run.bytes[i])} are live. ` +
    `The live memory exceeds the limit after ${shareText(over / run.events)} of all events.`;
  const show = element("button", { type: "button", onclick: () => showFailing(i) }, "Show it");
  return [element("p", {}, element("span", { class: "bad" }, "Too low: "), text), element("p", {}, show)];
}

function showFailing(i) {
  goTo(i);
  byId("plan").scrollIntoView({ block: "center" });
  byId("plan").focus({ preventScroll: true });
}

// The fewest arrays, the largest first, without which the peak would fit.
function toGo(device) {
  const alive = device.own.filter((i) => run.starts[i] <= device.peakEvent && run.ends[i] > device.peakEvent);
  alive.sort((one, other) => run.bytes[other] - run.bytes[one]);
  const groups = new Map();
  let over = device.peakLive - limitBytes;
  for (const i of alive) {
    if (over <= 0) break;
    over -= run.bytes[i];
    const kind = run.kind[i];
    const site = run.texts[run.kinds.site[kind]];
    const key = [scopeOf(kind), kindText(kind), site].join("\n");
    const group = groups.get(key) ?? [scopeOf(kind), kindText(kind), 0, 0, site];
    group[2]++;
    group[3] += run.bytes[i];
    groups.set(key, group);
  }
  return [...groups.values()].sort((one, other) => other[3] - one[3]);
}

function goTable(device, rows) {
  const columns = [
    ["Scope", (row) => scopeText(row[0]), true],
    ["Array", (row) => [row[1], ...below(row[4])], true],
    ["Arrays", (row) => countText(row[2])],
    ["Bytes", (row) => bytesText(row[3])],
  ];
  const caption = `The peak exceeds the limit by ${bytesText(device.peakLive - limitBytes)}. It would fit without these arrays, for example if they were in host memory:`;
  return table(caption, columns, rows);
}

function showReplays() {
  const { rows, page_bytes: pageBytes, device } = run.limits;
  if (rows.length === 0) return;
  const columns = [
    ["Limit", (row) => bytesText(row[0]), true],
    ["Outcome", (row) => (row[1] ? plural(row[1], "failure", "failures") : "enough")],
    ["Reserved", (row) => bytesText(row[2])],
    ["By plan", (row) => shareText(row[3])],
  ];
  const of = run.devices.length > 1 ? ` of device ${device}` : "";
  const caption = `Replays${of} under limits, with pages of ${bytesText(pageBytes)} as the device has. "By plan" counts the last three steps of each replay.`;
  byId("limit-replays").replaceChildren(...table(caption, columns, rows));
}

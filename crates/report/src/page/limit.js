// What a limit would have done. The trace alone tells what cannot work: less memory than was alive at once. What a replay under a
// limit gave is shown where the page has it.

function showLimit() {
  const device = view.device;
  const isKnown = !Number.isNaN(device.peakReserved);
  const all = isKnown ? device.peakReserved : device.peakLive;
  limitBytes = (all * Number(byId("limit").value)) / 100;
  const of = isKnown ? "the peak reserved" : "the peak live";
  byId("limit-value").textContent = `${byId("limit").value}% of ${of}: ${bytesText(limitBytes)}`;
  const says = limitBytes < device.peakLive ? saysFailure(device) : saysEnough(device, isKnown);
  byId("limit-says").replaceChildren(...says);
  const rows = limitBytes < device.peakLive ? toGo(device) : [];
  byId("limit-table").replaceChildren(...(rows.length ? goTable(device, rows) : []));
  redraw();
}

function saysEnough(device, isKnown) {
  const spare = bytesText(limitBytes - device.peakLive);
  if (isKnown && limitBytes >= device.peakReserved) {
    return [element("p", {}, element("span", { class: "good" }, "Nothing would have changed: "), "the run never held more.")];
  }
  const idle = isKnown ? ` ${bytesText(device.peakReserved - limitBytes)} of idle memory would have had to go back.` : "";
  const text = `all that was alive at once has room, and ${spare} are left.${idle} Whether holes between arrays suffice, a replay tells.`;
  return [element("p", {}, element("span", { class: "good" }, "It may do: "), text)];
}

// The first event after which more is alive than the limit allows.
function firstOver(device) {
  return device.live.findIndex((bytes) => bytes > limitBytes);
}

function saysFailure(device) {
  const event = firstOver(device);
  const i = device.own.find((i) => run.starts[i] === event);
  const over = device.live.reduce((count, bytes) => count + (bytes > limitBytes ? 1 : 0), 0);
  const kind = run.kind[i];
  const text =
    ` at event ${countText(event)} (${timeText(run.times[event])}), in ${scopeText(scopeOf(kind))}, for ${kindText(kind)}: ` +
    `${bytesText(run.bytes[i])} more, with ${bytesText(device.live[event] - run.bytes[i])} alive. ` +
    `More than the limit is alive after ${shareText(over / run.events)} of all events.`;
  const show = element("button", { type: "button", onclick: () => showFailing(i) }, "Show it");
  return [element("p", {}, element("span", { class: "bad" }, "It fails first"), text), element("p", {}, show)];
}

function showFailing(i) {
  goTo(i);
  byId("plan").scrollIntoView({ block: "center" });
  byId("plan").focus({ preventScroll: true });
}

// The fewest arrays, the largest first, without which the peak would have room.
function toGo(device) {
  const alive = device.own.filter((i) => run.starts[i] <= device.peakEvent && run.ends[i] > device.peakEvent);
  alive.sort((one, other) => run.bytes[other] - run.bytes[one]);
  const groups = new Map();
  let over = device.peakLive - limitBytes;
  for (const i of alive) {
    if (over <= 0) break;
    over -= run.bytes[i];
    const kind = run.kind[i];
    const key = [scopeOf(kind), kindText(kind)].join("\n");
    const group = groups.get(key) ?? [scopeOf(kind), kindText(kind), 0, 0];
    group[2]++;
    group[3] += run.bytes[i];
    groups.set(key, group);
  }
  return [...groups.values()].sort((one, other) => other[3] - one[3]);
}

function goTable(device, rows) {
  const columns = [
    ["Scope", (row) => scopeText(row[0]), true],
    ["Array", (row) => row[1], true],
    ["Arrays", (row) => countText(row[2])],
    ["Bytes", (row) => bytesText(row[3])],
  ];
  const caption = `${bytesText(device.peakLive - limitBytes)} too much at the peak. The fewest arrays that would have to be elsewhere then:`;
  return table(caption, columns, rows);
}

function showReplays() {
  if (run.limits.length === 0) return;
  const columns = [
    ["Limit", (row) => bytesText(row[0]), true],
    ["Outcome", (row) => (row[1] ? `${countText(row[1])} times out of memory` : "runs")],
    ["Reserved", (row) => bytesText(row[2])],
    ["By plan", (row) => shareText(row[3])],
  ];
  byId("limit-replays").replaceChildren(...table("Replays of this run under limits.", columns, run.limits));
}

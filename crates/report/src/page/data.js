// The data of the page. Columns of differences become arrays of numbers.

const run = (() => {
  const raw = JSON.parse(document.getElementById("data").textContent);
  const sums = (differences) => {
    let sum = 0;
    return Float64Array.from(differences, (difference) => (sum += difference));
  };
  const times = sums(raw.times);
  const events = times.length;
  const first = events ? times[0] : 0;
  const starts = sums(raw.arrays.starts);
  const offsets = sums(raw.arrays.offsets);
  const count = starts.length;
  const ends = new Float64Array(count);
  const isFreed = new Uint8Array(count);
  for (let i = 0; i < count; i++) {
    isFreed[i] = raw.arrays.spans[i] > 0 ? 1 : 0;
    ends[i] = isFreed[i] ? starts[i] + raw.arrays.spans[i] : events;
  }
  const kinds = raw.kinds;
  return {
    ...raw,
    events,
    count,
    // Nanoseconds since the first event.
    times: times.map((time) => time - first),
    starts,
    ends,
    isFreed,
    kind: Int32Array.from(raw.arrays.kinds),
    servedBy: Uint8Array.from(raw.arrays.served),
    cause: Uint8Array.from(raw.arrays.causes),
    offset: Float64Array.from(raw.arrays.places, (place) => offsets[place]),
    bytes: Float64Array.from(raw.arrays.kinds, (kind) => kinds.bytes[kind]),
    marks: { starts: sums(raw.marks.starts), scopes: raw.marks.scopes },
  };
})();

// A device with its arrays, and its live and reserved bytes after each event.
function deviceData(device) {
  const own = [];
  let [begin, end] = [device.reserved.events[0] ?? run.events, 0];
  const live = new Float64Array(run.events + 1);
  for (let i = 0; i < run.count; i++) {
    if (run.kinds.device[run.kind[i]] !== device.number) continue;
    own.push(i);
    begin = Math.min(begin, run.starts[i]);
    end = Math.max(end, run.ends[i]);
    live[run.starts[i]] += run.bytes[i];
    if (run.isFreed[i]) live[run.ends[i]] -= run.bytes[i];
  }
  for (let i = 1; i <= run.events; i++) live[i] += live[i - 1];
  const reserved = reservedOf(device);
  let height = 0;
  for (const band of device.bands) height = Math.max(height, band[1] + band[2]);
  let peakReserved = NaN;
  for (const bytes of reserved.changes) if (!(bytes <= peakReserved)) peakReserved = bytes;
  return {
    ...device,
    own: Int32Array.from(own),
    // The first and the last event of the device. The event before the first one may enter a scope, and is shown too.
    begin: Math.max(0, Math.min(begin, end) - 1),
    end,
    live,
    reserved: reserved.after,
    calls: reserved.changes.length,
    peakReserved,
    peakEvent: device.peak[0],
    peakLive: device.peak[1],
    height: height || 1,
  };
}

// The reserved bytes of a device after each event: NaN before the first value of the trace.
function reservedOf(device) {
  const after = new Float64Array(run.events + 1).fill(NaN);
  const changes = [];
  let bytes = 0;
  let event = 0;
  device.reserved.bytes.forEach((change, i) => {
    event += device.reserved.events[i];
    bytes += change;
    changes.push(bytes);
    after[event] = bytes;
  });
  for (let i = 1; i <= run.events; i++) if (Number.isNaN(after[i])) after[i] = after[i - 1];
  return { after, changes };
}

// The array of a device that lies at an offset at an event, or the nearest within some events and bytes; -1 for none.
function arrayAt(device, from, to, low, high) {
  let found = -1;
  for (const i of device.own) {
    if (run.starts[i] <= to && run.ends[i] >= from && run.offset[i] <= high && run.offset[i] + run.bytes[i] >= low) {
      // The array with the shortest life is drawn on top.
      if (found < 0 || run.ends[i] - run.starts[i] <= run.ends[found] - run.starts[found]) found = i;
    }
  }
  return found;
}

// The address of an array, as text.
function addressOf(device, i) {
  const band = device.bands.findLast((band) => band[1] <= run.offset[i]);
  return band ? "0x" + (BigInt(band[0]) + BigInt(run.offset[i] - band[1])).toString(16) : "";
}

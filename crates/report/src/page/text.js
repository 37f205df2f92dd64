// Numbers and names as text, and elements made of them. Text never becomes HTML.

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];

function bytesText(bytes) {
  let unit = 0;
  while (Math.abs(bytes) >= 1024 && unit < UNITS.length - 1) {
    bytes /= 1024;
    unit++;
  }
  const digits = unit === 0 || Number.isInteger(bytes) || bytes >= 100 ? 0 : bytes >= 10 ? 1 : 2;
  return `${bytes.toFixed(digits)} ${UNITS[unit]}`;
}

function countText(count) {
  return Math.round(count).toLocaleString("en");
}

function plural(count, one, many) {
  return `${countText(count)} ${count === 1 ? one : many}`;
}

// One number divided by another; a dash if the other one is 0.
function timesText(one, other) {
  return other > 0 ? (one / other).toFixed(2) : "–";
}

function timeText(ns) {
  if (!Number.isFinite(ns)) return "–";
  if (ns < 1e3) return `${Math.round(ns)} ns`;
  if (ns < 1e6) return `${significant(ns / 1e3)} µs`;
  if (ns < 1e9) return `${significant(ns / 1e6)} ms`;
  return `${significant(ns / 1e9)} s`;
}

function significant(number) {
  return number >= 100 ? number.toFixed(0) : Number(number.toPrecision(3)).toString();
}

function shareText(share) {
  if (!Number.isFinite(share)) return "–";
  const percent = share * 100;
  if (percent > 0 && percent < 0.1) return "< 0.1%";
  return `${percent >= 99.95 || percent < 10 ? Number(percent.toFixed(1)) : percent.toFixed(percent > 99 ? 1 : 0)}%`;
}

function scopeText(scope) {
  return scope === "" ? "outside scopes" : scope;
}

// A type and a shape: f32 [32 x 64].
function arrayText(dtype, shape) {
  return `${dtype || "bytes"} [${shape.replaceAll("x", " × ")}]`;
}

function kindText(kind) {
  return arrayText(run.texts[run.kinds.dtype[kind]], run.texts[run.kinds.shape[kind]]);
}

function scopeOf(kind) {
  return run.texts[run.kinds.scope[kind]];
}

function byId(id) {
  return document.getElementById(id);
}

// An element with attributes and children, which are elements or texts.
function element(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (name === "onclick") made.addEventListener("click", value);
    else if (value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

// A legend of colours. Entries with a click handler are buttons.
function legend(id, entries) {
  const items = entries.map(({ colour, text, onclick }) => {
    const mark = element("i");
    mark.style.setProperty("--mark", `var(${colour})`);
    return element("li", {}, onclick ? element("button", { type: "button", onclick }, mark, text) : element("span", {}, mark, text));
  });
  byId(id).replaceChildren(...items);
}

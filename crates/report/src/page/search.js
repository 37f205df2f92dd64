// The search: the kinds of arrays that have the words of a text, the number of these arrays, and a list of them.

// For each kind, whether it is found; null without a search.
let matching = null;

// The words of a kind.
function wordsOf(kind) {
  const { kinds, texts } = run;
  const bytes = kinds.bytes[kind];
  const parts = [scopeText(scopeOf(kind)), texts[kinds.site[kind]], texts[kinds.dtype[kind]], texts[kinds.shape[kind]], bytes, bytesText(bytes).replace(" ", "")];
  return ` ${parts.join(" ")}`.toLowerCase();
}

// Finds the kinds with all words of a text. A word may be a part of the scope's name, or the beginning of another word.
function search(text) {
  const wanted = text.toLowerCase().trim().replace(/(\d) +(b|kib|mib|gib|tib)\b/g, "$1$2").split(/\s+/).filter(Boolean);
  matching = null;
  if (wanted.length > 0) {
    matching = new Uint8Array(run.kinds.bytes.length);
    for (let kind = 0; kind < matching.length; kind++) {
      const [words, scope] = [wordsOf(kind), scopeOf(kind).toLowerCase()];
      matching[kind] = scope === text.toLowerCase() || wanted.every((word) => scope.includes(word) || words.includes(` ${word}`)) ? 1 : 0;
    }
  }
  listMatches();
  redraw();
}

function searchFor(text) {
  byId("search").value = text;
  search(text);
}

// Shows the number of the arrays that are found, and lists them by kind.
function listMatches() {
  const groups = new Map();
  let count = 0;
  for (const i of matching ? view.device.own : []) {
    const kind = run.kind[i];
    if (!matching[kind]) continue;
    count++;
    const key = [scopeOf(kind), kindText(kind), run.bytes[i]].join("\n");
    const group = groups.get(key) ?? { first: i, count: 0 };
    group.count++;
    groups.set(key, group);
  }
  const rows = [...groups.values()].sort((one, other) => other.count * run.bytes[other.first] - one.count * run.bytes[one.first]);
  byId("found").textContent = matching ? `${plural(count, "array", "arrays")}${count ? ", Enter for the next" : ""}` : "";
  byId("matches").hidden = rows.length === 0;
  byId("matches").replaceChildren(...rows.slice(0, 50).map(matchRow));
}

function matchRow({ first, count }) {
  const kind = run.kind[first];
  const name = element("span", {}, `${scopeText(scopeOf(kind))}: ${kindText(kind)}`);
  const about = element("span", { class: "quiet" }, `${countText(count)} × ${bytesText(run.bytes[first])}`);
  return element("button", { type: "button", onclick: () => goTo(first) }, name, about);
}

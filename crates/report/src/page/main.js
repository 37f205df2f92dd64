// Puts the page together: the first view, the buttons and keys, and the theme.

function setDevice(number) {
  view.device = deviceData(run.devices.find((device) => device.number === number) ?? EMPTY);
  view.hover = -1;
  showAll();
  colourBy = byId("colour").value = usualColour();
  ratioSeries = ratios();
  ratioTop = topOf(ratioSeries);
  sortByColour();
  select(-1);
  search(byId("search").value);
  showSummary();
  showOverhead();
  showHolders();
  showLeft();
  showFailed();
  showLimit();
  readCharts();
}

// The device of a run without allocations.
const EMPTY = {
  number: 0,
  peak: [0, 0],
  reserved: { events: [], bytes: [] },
  bands: [],
  holders: { rows: [], left_out: 0 },
  left: { rows: [], left_out: 0 },
  failed: { rows: [], left_out: 0 },
  failures: 0,
  holes: { count: 0, bytes: 0, longest: [] },
};

function startDevices() {
  const byPeak = [...run.devices].sort((one, other) => other.peak[1] - one.peak[1]);
  const option = (device) => element("option", { value: device.number }, `${device.number} (${bytesText(device.peak[1])})`);
  byId("device").replaceChildren(...byPeak.map(option));
  byId("device-choice").hidden = byPeak.length < 2;
  byId("device").addEventListener("change", (event) => setDevice(Number(event.target.value)));
  setDevice(byPeak[0]?.number);
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  byId("theme").textContent = theme === "dark" ? "Light" : "Dark";
  readColours();
  redraw();
}

function startTheme() {
  const asked = matchMedia("(prefers-color-scheme: dark)");
  const follow = () => setTheme(asked.matches ? "dark" : "light");
  asked.addEventListener("change", follow);
  byId("theme").addEventListener("click", () => {
    asked.removeEventListener("change", follow);
    setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");
  });
  follow();
}

function setAxis(axis) {
  const [from, to] = [eventAt(view.from), eventAt(view.to)];
  const isAll = isWhole();
  view.axis = axis;
  view.cursor = NaN;
  if (isAll) look(0, Infinity);
  else look(across(from), across(to) - across(from));
}

const KEYS = {
  "+": () => zoomAcross(0.6),
  "=": () => zoomAcross(0.6),
  "-": () => zoomAcross(1 / 0.6),
  0: showAll,
  ArrowLeft: () => move(-0.15, 0),
  ArrowRight: () => move(0.15, 0),
  ArrowUp: () => move(0, 0.15),
  ArrowDown: () => move(0, -0.15),
  "Shift+ArrowUp": () => zoomUp(0.6),
  "Shift+ArrowDown": () => zoomUp(1 / 0.6),
  "Shift+ArrowRight": () => zoomAcross(0.6),
  "Shift+ArrowLeft": () => zoomAcross(1 / 0.6),
  n: () => step(1),
  p: () => step(-1),
  Escape: () => select(-1),
};

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const name = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  const act = KEYS[event.shiftKey && name.startsWith("Arrow") ? `Shift+${name}` : name];
  if (!act) return;
  event.preventDefault();
  act();
}

function startPlan() {
  const plan = byId("plan");
  gestures(plan, {
    isUpToo: true,
    onPoint: hover,
    onClick: (at) => {
      hover(at);
      select(view.hover);
    },
    onLeave: () => hover({ right: -1, up: -1 }),
  });
  plan.addEventListener("keydown", onKey);
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.target.matches("input, select")) return;
    event.preventDefault();
    byId("search").focus();
  });
}

function startTools() {
  byId("search").addEventListener("input", (event) => search(event.target.value));
  byId("search").addEventListener("keydown", (event) => {
    if (event.key === "Enter") step(event.shiftKey ? -1 : 1);
    if (event.key === "Escape") searchFor("");
  });
  byId("axis").addEventListener("change", (event) => setAxis(event.target.value));
  byId("colour").addEventListener("change", (event) => {
    colourBy = event.target.value;
    sortByColour();
    redraw();
  });
  byId("closer").addEventListener("click", () => zoomAcross(0.6));
  byId("wider").addEventListener("click", () => zoomAcross(1 / 0.6));
  byId("all").addEventListener("click", showAll);
  byId("limit").addEventListener("input", showLimit);
  new ResizeObserver(redraw).observe(document.body);
}

byId("name").textContent = run.name;
document.title = `Memory of ${run.name}`;
startTheme();
startDevices();
startCharts();
startPlan();
startTools();
showBeside();
showScopes();
showReplays();
painters.push(paintPlan, paintStrip);
drawNow();
// The milliseconds from the request to the first view.
document.documentElement.dataset.drawn = Math.ceil(performance.now());

// The history plot and its filters. At the end, starts all pages, and draws plots again for the
// printer and for dark or light.

const WIDTH_OF_PAPER = 680;  // CSS pixels between the margins of A4 and Letter
const MANY = 60;  // with more points, the intervals of a line are a band
const ALL = "all partitions";
let chosen = null;

const NAMES = ["check", "partition", "environment", "variable"];  // as a series' key has them

function fill(select, names, wanted) {
  select.replaceChildren(
    ...names.map(name => new Option(name.replace(/ %(?=[^\s=]+=)/g, " "), name)));
  if (names.includes(wanted)) select.value = wanted;
  return select.value;
}

function choose(wanted) {  // each filter offers the values that the filters before it leave
  const form = document.getElementById("choose").elements;
  let left = stored.history.series;
  chosen = {};
  for (const name of ["check", "environment", "variable"]) {
    const column = NAMES.indexOf(name);
    chosen[name] =
      fill(form[name], [...new Set(left.map(series => series.key[column]))], wanted[name]);
    left = left.filter(series => series.key[column] === chosen[name]);
  }
  chosen.partition =
    fill(form.partition, [ALL, ...left.map(series => series.key[1])], wanted.partition);
  return left.filter(series => chosen.partition === ALL || series.key[1] === chosen.partition);
}

function drawHistory(wanted) {
  const element = document.getElementById("plot-history"), slots = stored.history.slots;
  if (!stored.history.series.length) return;
  const shown = choose(wanted);
  // Only sessions that measured it, evenly spaced. On a time axis, idle weeks would squeeze them.
  const used = [...new Set(shown.flatMap(series => series.at))].sort((a, b) => a - b);
  const place = new Map(used.map((slot, i) => [slot, i]));
  const traces = [], shapes = [], annotations = [];
  for (const series of shown) {
    const [, partition, environment] = series.key;
    traces.push(...(series.at.length > MANY ? [band(series, place)] : [sampleTrace(series, place)]),
      seriesTrace(series, partition, environment, slots, place));
    const moves = stored.history.changes.filter(
      change => place.has(change.slot) && change.key.every((part, i) => part === series.key[i]));
    for (const move of moves) {
      shapes.push({
        type: "line",
        xref: "x",
        yref: "paper",
        x0: place.get(move.slot),
        x1: place.get(move.slot),
        y0: 0,
        y1: 1,
        line: { color: css("--quiet"), width: 1, dash: "dash" }
      });
    }
    traces.push({
      x: moves.map(m => place.get(m.slot)),
      y: moves.map(m => m.y),
      mode: "markers",
      hovertemplate: "%{text}<extra></extra>",
      marker: {
        symbol: "diamond",
        size: 13,
        color: css("--regressed"),
        line: { color: css("--panel"), width: 1.5 }
      },
      text: moves.map(m => `${safe(partition)}: the level moved<br>${broken(m.text)}`)
    });
    if (shown.length > 1) {
      annotations.push({
        x: place.get(series.at.at(-1)),
        y: series.y.at(-1),
        text: safe(partition),
        xanchor: "left",
        xshift: 8,
        showarrow: false,
        font: { color: css("--text"), size: 12 }
      });
    }
  }
  const ys = shown.flatMap(series => [...series.low, ...series.high]).filter(y => y > 0);
  const low = Math.min(...ys), high = Math.max(...ys), log = high / low > 8;
  if (log)
    annotations.forEach(label => {
      label.y = Math.log10(label.y);
    });
  const right =
    shown.length > 1 ? 22 + 6.5 * Math.max(...shown.map(series => series.key[1].length)) : 16;
  window.Plotly.react(element, traces, layout({
    shapes,
    annotations,
    margin: { l: 52, r: Math.min(right, 120), t: 12, b: 44 },
    xaxis: {
      ...dates(used.map(slot => slots[slot][0]), element.clientWidth),
      range: [-0.5, used.length - 0.5],
      showgrid: false,
      title: { text: "sessions that measured it, oldest first", standoff: 8 }
    },
    yaxis: {
      title: { text: shown[0].unit + (log ? ", logarithmic" : ""), standoff: 8 },
      ...(log ? {
        type: "log",
        range: [Math.log10(low) - 0.08, Math.log10(high) + 0.08],
        ...ticks(low, high)
      } :
                {})
    },
  }),
    { displayModeBar: false, responsive: true });
  document.querySelector("#history .keys").hidden = false;
  for (const row of document.querySelectorAll("#series tbody tr")) {
    const key = stored.history.series[Number(row.dataset.index)].key;
    row.hidden = key[0] !== chosen.check || key[2] !== chosen.environment ||
      chosen.partition !== ALL && key[1] !== chosen.partition;
  }
}

function seriesTrace(series, partition, environment, slots, place) {
  const x = series.at.map(slot => place.get(slot));
  const trace = lineTrace({...series, partition, stack: environment, session: "" }, 0, x);
  trace.text = series.y.map((y, i) => {
    const [from, to, count] = slots[series.at[i]];
    return `${safe(partition)}<br>${
             tooltip(series.unit, y, series.low[i], series.high[i], series.n[i], count > 1)}` +
      `<br>session ${safe(from)}${to ? "<br>to " + safe(to) : ""}`;
  });
  if (series.at.length > MANY) {
    delete trace.error_y;
    trace.marker.maxdisplayed = 12;
  }
  return trace;
}

// a band from the lower to the upper ends of the intervals, for lines with many points
function band(series, place) {
  const x = series.at.map(slot => place.get(slot));
  return {
    x: [...x, ...x.slice().reverse()],
    y: [...series.high, ...series.low.slice().reverse()],
    mode: "lines",
    fill: "toself",
    line: { width: 0 },
    fillcolor: colour(series.key[1]) + "40",
    hoverinfo: "skip"
  };
}

function sampleTrace(series, place) {
  const samples = Object.entries(series.samples).flatMap(([slot,
    values]) => values.map(value => [place.get(Number(slot)), value]));
  return {
    x: samples.map(sample => sample[0]),
    y: samples.map(sample => sample[1]),
    mode: "markers",
    hoverinfo: "skip",
    marker: { color: colour(series.key[1]), size: 4, opacity: 0.35 }
  };
}

// ticks for as many sessions as fit; the time of day where a day has several
function dates(names, width) {
  const step = Math.max(1, Math.ceil(names.length / (width < 480 ? 3 : 7)));
  const at = [...names.keys()].filter(i => i % step === 0);
  const days = at.map(i => names[i].slice(0, 10));
  const times = new Set(days).size < days.length;
  const label = name =>
    times ? `${safe(name.slice(0, 10))}<br>${safe(name.slice(11, 16))}` : safe(name.slice(0, 10));
  return { tickvals: at, ticktext: at.map(i => label(names[i])) };
}

async function openHistory(detail) {
  try {
    await ready();
    const form = document.getElementById("choose");
    if (form.hidden) {
      form.hidden = false;
      form.addEventListener("change", () => drawHistory(Object.fromEntries(new FormData(form))));
    }
    const series = detail === undefined ? undefined : stored.history.series[Number(detail)];
    const key = series?.key ?? (chosen ? null : stored.history.changes[0]?.key);
    drawHistory(key ? Object.fromEntries(key.map((part, i) => [NAMES[i], part])) : chosen ?? {});
  } catch (error) {
    failed(error);
  }
}

for (const page of ["network", "kernels", "memory"]) show[page] = () => openPlots(page);
show.history = openHistory;

function drawAll(width) {
  for (const plot of document.querySelectorAll(".plot"))
    plot.style.width = width ? `${width}px` : "";
  for (const page of ["network", "kernels", "memory"]) {
    legend(page);
    plotsOf(page).forEach(([plot, element]) => draw(plot, element, page));
  }
  drawFleet();
  drawHistory(chosen ?? {});
}

function paper(on) {
  document.documentElement.classList.toggle("printing", on);
  if (stored) drawAll(on ? WIDTH_OF_PAPER : 0);
  else ready().then(() => drawAll(on ? WIDTH_OF_PAPER : 0), failed);
}

pageTabs();
tips();
addEventListener("beforeprint", () => paper(true));
addEventListener("afterprint", () => paper(false));
matchMedia("print").addEventListener("change", event => paper(event.matches));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  const page = document.querySelector("section.open");
  if (stored && show[page.id]) show[page.id]();
});
// Load the library later, for readers who print before they have opened a page with a plot.
const whenIdle = window.requestIdleCallback ?? setTimeout;
addEventListener("load", () => setTimeout(() => whenIdle(() => ready().catch(failed)), 2000));

// Plots by plotly.js, which is inflated when the first one is shown. A partition is a colour and a
// marker, a stack a dash.

const MARKERS = ["circle", "square", "diamond", "triangle-up", "cross", "x"];
const DASHES = ["solid", "dash", "dot", "dashdot", "longdash", "longdashdot"];
const STROKES = ["", "7 4", "2 3", "7 3 2 3", "11 4", "11 3 2 3"];
const SHAPES = [
  "M6 1a5 5 0 1 0 .01 0z", "M1.5 1.5h9v9h-9z", "M6 0l6 6-6 6-6-6z", "M6 1l6 10h-12z",
  "M4 0h4v4h4v4h-4v4h-4v-4h-4v-4h4z", "M2 0l4 4 4-4 2 2-4 4 4 4-2 2-4-4-4 4-2-2 4-4-4-4z"
];
const PLACES = ["circle-open", "square-open", "diamond-open", "star-open", "hexagon-open"];
const hidden = new Set();  // "page partition NAME", "page stack NAME", "page published"
let loading = null, stored = null;

async function inflate(id) {
  const packed = atob(document.getElementById(id).textContent);
  const bytes = new Uint8Array(packed.length);
  for (let i = 0; i < packed.length; i++) bytes[i] = packed.charCodeAt(i);
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip")))
    .text();
}

function ready() {  // the data, once both are loaded
  loading ??= (async () => {
    const [library, data] = await Promise.all([inflate("library"), inflate("data")]);
    const script = document.createElement("script");
    script.textContent = library;
    document.head.append(script);
    if (!window.Plotly) throw new Error("the plotting library did not start");
    stored = JSON.parse(data);
    return stored;
  })();
  return loading;
}

function failed(error) {
  for (const plot of document.querySelectorAll(".plot:not(.failed)")) {
    plot.classList.add("failed");
    plot.textContent = `The plot cannot be drawn in this browser (${
      error.message}); the tables hold the same figures.`;
  }
}

const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const safe = text =>
  String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
const colour = partition =>
  css(`--series-${stored.partitions.indexOf(partition) % MARKERS.length}`);
const marker = partition => MARKERS[stored.partitions.indexOf(partition) % MARKERS.length];
const digits = value =>
  Math.abs(value) >= 1000 ? Math.round(value).toString() : Number(value.toPrecision(4)).toString();

function bytes(size) {
  return size >= 2 ** 30 ? `${size / 2 ** 30} GiB` :
    size >= 2 ** 20 ? `${size / 2 ** 20} MiB` :
    size >= 1024 ? `${size / 1024} KiB` :
                   `${size} B`;
}

function tooltip(unit, y, low, high, n, grouped) {  // value, interval and repeats, for the tooltip
  const amount = `<b>${digits(y)} ${safe(unit)}</b>`;
  if (grouped)
    return `${amount}<br>lowest to highest median: ${digits(low)} to ${digits(high)}<br>n = ${
      n} sessions`;
  if (n < 2) return `${amount}<br>one repeat: no interval`;
  const kind = n >= 6 ? "95 % of the median" : "lowest to highest repeat";
  return `${amount}<br>${kind}: ${digits(low)} to ${digits(high)}<br>n = ${n} repeats`;
}

// ticks of a logarithmic axis: 1, 10, 100, and values between them if these are few
function ticks(low, high) {
  const decades = Math.log10(high / low), values = [];
  const steps = decades > 2.5 ? [1] : decades > 0.9 ? [1, 2, 5] : [1, 1.5, 2, 3, 4, 5, 6, 8];
  for (let e = Math.floor(Math.log10(low)); e <= Math.ceil(Math.log10(high)); e++) {
    for (const step of steps) values.push(Number((step * 10 ** e).toPrecision(2)));
  }
  return {
    tickvals: values,
    ticktext: values.map(value => value >= 1e6 ? value.toExponential(0) : String(value))
  };
}

function layout(extra) {
  const axis = {
    gridcolor: css("--line"),
    zerolinecolor: css("--line"),
    linecolor: css("--line"),
    tickcolor: css("--line"),
    automargin: true,
    title: { standoff: 8 }
  };
  return {
    font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: css("--quiet") },
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    showlegend: false,
    autosize: true,
    margin: { l: 48, r: 12, t: 12, b: 44 },
    hovermode: "closest",
    dragmode: matchMedia("(pointer: coarse)").matches ? false : "zoom",
    hoverlabel: {
      bgcolor: css("--panel"),
      bordercolor: css("--line"),
      font: { color: css("--text"), size: 12.5 },
      align: "left"
    },
    ...extra,
    xaxis: {...axis, ...extra.xaxis },
    yaxis: {...axis, ...extra.yaxis },
  };
}

function lineTrace(line, dash, x) {
  return {
    x,
    y: line.y,
    mode: "lines+markers",
    line: { color: colour(line.partition), dash: DASHES[dash % DASHES.length], width: 1.75 },
    // Few markers, so that the dashes between them are visible. Every point has a tooltip.
    marker: {
      symbol: marker(line.partition),
      size: 7,
      color: colour(line.partition),
      maxdisplayed: line.x?.length > 12 ? 8 : 0
    },
    error_y: {
      type: "data",
      symmetric: false,
      array: line.y.map((y, i) => line.high[i] - y),
      arrayminus: line.y.map((y, i) => y - line.low[i]),
      thickness: 1,
      width: 2,
      color: colour(line.partition)
    },
    text: line.y.map((y, i) => `${safe(line.partition)}, ${safe(line.stack)}<br>` +
        tooltip(line.unit, y, line.low[i], line.high[i], line.n[i]) +
        `<br>session ${safe(line.session)}`),
    hovertemplate: "%{text}<extra></extra>",
  };
}

// published figures: grey and hollow, with a shape for each place; a limit is an arrow
function markTraces(marks, x, places) {
  const symbol = mark => mark.bound === "<" ? "triangle-down-open" :
    mark.bound === ">"                      ? "triangle-up-open" :
                                              PLACES[places.indexOf(mark.place) % PLACES.length];
  return [false, true].map(range => {
    const chosen =
      marks.map((mark, i) => [mark, x[i]]).filter(([mark]) => mark.high > mark.low === range);
    const trace = {
      x: chosen.map(([, at]) => at),
      y: chosen.map(([m]) => m.y),
      mode: "markers",
      marker: {
        symbol: chosen.map(([m]) => symbol(m)),
        size: 8,
        color: css("--quiet"),
        line: { width: 1.5, color: css("--quiet") }
      },
      text: chosen.map(([m]) => `published: <b>${safe(m.text)}</b><br>` +
          [m.software, m.place, m.settings, m.where].filter(Boolean).map(broken).join("<br>") +
          `<br><i>${broken(m.quote)}</i>`),
      hovertemplate: "%{text}<extra></extra>",
    };
    if (range) {
      trace.error_y = {
        type: "data",
        symmetric: false,
        array: chosen.map(([m]) => m.high - m.y),
        arrayminus: chosen.map(([m]) => m.y - m.low),
        color: css("--quiet"),
        thickness: 1.5,
        width: 3
      };
    }
    return trace;
  });
}

// published message sizes where a curve bends: a dotted line for each size
function bendsOf(bends) {
  const shapes = [], annotations = [];
  for (const x of new Set(bends.map(bend => bend.x))) {
    const same = bends.filter(bend => bend.x === x);
    const line = { color: css("--quiet"), width: 1, dash: "dot" };
    shapes.push({ type: "line", xref: "x", yref: "paper", x0: x, x1: x, y0: 0, y1: 1, line });
    annotations.push({
      xref: "x",
      yref: "paper",
      x: Math.log10(x),
      y: 0.02,
      xanchor: shapes.length % 2 ? "right" : "left",  // neighbours are beside different sides
      yanchor: "bottom",
      textangle: -90,
      showarrow: false,
      text: safe(same[0].text),
      font: { size: 11 },
      hovertext: same
        .map(bend => [bend.software, bend.place, bend.settings, bend.where, bend.quote]
               .filter(Boolean)
               .map(broken)
               .join("<br>"))
        .join("<br><br>")
    });
  }
  return { shapes, annotations };
}

const broken = text => safe(text.replace(/(.{30,45}) /g, "$1\n")).replace(/\n/g, "<br>");

function draw(plot, element, page) {
  const seen = line => !hidden.has(`${page} partition ${line.partition}`) &&
    !hidden.has(`${page} stack ${line.stack}`);
  const lines = plot.lines.filter(seen);
  const marks = hidden.has(`${page} published`) ? [] : plot.marks;
  const stacks = stacksOf(page);
  const inBytes = plot.x.kind === "bytes", latency = plot.id.startsWith("latency");
  const xaxis = { title: { text: plot.x.title, standoff: 8 } }, shapes = [], annotations = [];
  let at = marks.map(mark => mark.x);
  if (inBytes) {
    // The published figures have a column of their own beside the lines. Its title has their size.
    const longest = Math.max(4 * 2 ** 20, ...lines.flatMap(line => line.x));
    const step = 1.25 / Math.max(marks.length, 1), most = Math.log10(longest);
    const start = latency ? -0.35 - step * marks.length : most + 0.35;
    at = marks.map((_, i) => 10 ** (start + step * (i + 0.5)));
    xaxis.type = "log";
    xaxis.range = [
      latency && marks.length ? start - 0.05 : -0.25,
      !latency && marks.length ? start + 1.3 : most + 0.25
    ];
    xaxis.tickvals =
      (element.clientWidth < 420 ? [1, 1024, 2 ** 20] : [1, 64, 1024, 16384, 2 ** 18, 4 * 2 ** 20]);
    if (longest > 4 * 2 ** 20) xaxis.tickvals.push(longest);
    xaxis.ticktext = xaxis.tickvals.map(bytes);
    if (marks.length) {
      shapes.push({
        type: "rect",
        xref: "x",
        yref: "paper",
        x0: 10 ** (start - 0.05),
        x1: 10 ** (start + 1.3),
        y0: 0,
        y1: 1,
        fillcolor: css("--shade"),
        line: { width: 0 },
        layer: "below"
      });
      annotations.push({
        xref: "x",
        yref: "paper",
        x: start + 0.625,
        y: 1,
        yanchor: "top",
        showarrow: false,
        text: latency ? "published<br>at 1 B" : "published<br>peak",
        font: { size: 11 }
      });
    }
  } else if (plot.x.kind === "count") {
    const counts = [...new Set([...lines.flatMap(line => line.x), ...at])].sort((a, b) => a - b);
    Object.assign(xaxis, {
      type: "log",
      tickvals: counts,
      ticktext: counts.map(String),
      range: [Math.log10(counts[0] ?? 1) - 0.1, Math.log10(counts.at(-1) ?? 1) + 0.1]
    });
  } else {
    Object.assign(xaxis, { type: "category", categoryorder: "array", categoryarray: plot.x.order });
  }
  const bends = bendsOf(hidden.has(`${page} published`) ? [] : plot.bends);
  shapes.push(...bends.shapes);
  const yaxis = { rangemode: "tozero", title: { text: plot.y.title, standoff: 8 } };
  const ends = [
    ...lines.flatMap(line => [...line.low, ...line.high]),
    ...marks.flatMap(mark => [mark.low, mark.high])
  ].filter(y => y > 0);
  if (plot.y.log && ends.length) {
    const low = Math.min(...ends), high = Math.max(...ends);
    // Space at the top for the column's title.
    const space = (Math.log10(high / low) || 1) * (annotations.length ? 0.16 : 0.05);
    Object.assign(yaxis, { type: "log", range: [Math.log10(low) - 0.1, Math.log10(high) + space] },
      ticks(low, high));
  }
  const traces = [
    ...(marks.length ? markTraces(marks, at, plot.places) : []),
    ...lines.map(line => lineTrace(line, stacks.indexOf(line.stack), line.x))
  ];
  window.Plotly.react(element, traces,
    layout({ xaxis, yaxis, shapes, annotations: [...annotations, ...bends.annotations] }),
    { displayModeBar: false, responsive: true });
}

function plotsOf(page) {
  return [...document.querySelectorAll(`#${page} [data-plot]`)].map(
    element => [stored.plots.find(plot => plot.id === element.dataset.plot), element]);
}

const stacksOf =
  page => [...new Set(plotsOf(page).flatMap(([plot]) => plot.lines.map(line => line.stack)))];

function legend(page) {  // buttons that hide and show lines, and are the legend
  const box = document.querySelector(`.filters[data-page=${page}]`);
  if (box.childElementCount) return;
  const lines = plotsOf(page).flatMap(([plot]) => plot.lines);
  const group = (title, kind, names, swatch) => {
    if (!names.length) return;
    box.insertAdjacentHTML("beforeend", `<span class="label">${title}</span>`);
    names.forEach((name, i) => {
      const button = document.createElement("button");
      const key = name === null ? `${page} ${kind}` : `${page} ${kind} ${name}`;
      button.type = "button";
      button.setAttribute("aria-pressed", "true");
      button.innerHTML = swatch(name, i);
      button.append(name ?? "published figures");
      button.addEventListener("click", () => {
        hidden[hidden.has(key) ? "delete" : "add"](key);
        button.setAttribute("aria-pressed", !hidden.has(key));
        plotsOf(page).forEach(([plot, element]) => draw(plot, element, page));
      });
      box.append(button);
    });
  };
  const shape = (path, attributes) =>
    `<svg width="12" height="12" viewBox="0 0 12 12" aria-hidden="true"><path d="${path}" ${
      attributes}/></svg>`;
  group("Partition", "partition", [...new Set(lines.map(line => line.partition))], name => {
    const number = stored.partitions.indexOf(name);
    return shape(SHAPES[number % SHAPES.length], `style="fill:var(--series-${number % 6})"`);
  });
  group("Stack", "stack", stacksOf(page),
    (_, i) => `<svg width="30" height="12" aria-hidden="true"><path d="M0 6h30" fill="none" ` +
      `stroke="currentColor" stroke-width="2" stroke-dasharray="${
        STROKES[i % STROKES.length]}"/></svg>`);
  if (plotsOf(page).some(([plot]) => plot.marks.length + plot.bends.length)) {
    group("", "published", [null],
      () => shape(SHAPES[0], "fill=\"none\" stroke=\"currentColor\" stroke-width=\"1.5\""));
  }
}

async function openPlots(page) {
  try {
    await ready();
    legend(page);
    plotsOf(page).forEach(([plot, element]) => draw(plot, element, page));
    if (!show[page].drawn)
      document.querySelectorAll(`#${page} details.of-plot`).forEach(table => {
        table.open = false;
      });
    show[page].drawn = true;
  } catch (error) {
    failed(error);
  }
}

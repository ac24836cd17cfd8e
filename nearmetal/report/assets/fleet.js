// Heat maps of all links of a fleet: rows send, columns receive, the slowest nodes come first.
// Below them, a node over the sweeps.

function drawFleet() {
  for (const map of stored.fleet) {
    const known = map.z.flat().filter(z => z !== null).map(Math.abs).sort((a, b) => a - b);
    // One link may be a hundred times slower: the colours must still tell the others apart.
    const most = Math.max(10, known[Math.floor(known.length * 0.98)] ?? 0);
    const trace = {
      type: "heatmap",
      x: map.sides,
      y: map.sides,
      z: map.z,
      zmin: -most,
      zmax: most,
      colorscale: [[0, css("--better-5")], [0.5, css("--shade")], [1, css("--worse-5")]],
      colorbar: { title: { text: "%" }, thickness: 10, outlinewidth: 0 },
      hoverongaps: false,
      text: map.sides.map(from => map.sides.map(to => `${safe(from)} to ${safe(to)}`)),
      hovertemplate: "%{text}<br><b>%{z:+.1f} %</b> beyond the fleet's median<extra></extra>",
    };
    const few = { type: "category", nticks: 16, gridcolor: "rgba(0,0,0,0)" };
    const sizes = { xaxis: few, yaxis: {...few, autorange: "reversed" } };
    window.Plotly.react(document.getElementById(`plot-${map.id}`), [trace], layout(sizes),
      { displayModeBar: false, responsive: true });
  }
  stored.fleet_past.forEach(drawPast);
}

function drawPast(past) {
  const element = document.getElementById(`plot-${past.id}`);
  const chooser = document.getElementById(`choose-${past.id}`).elements.node;
  chooser.onchange = () => drawPast(past);
  const x = [...past.sweeps.keys()];
  const traces = past.nodes[chooser.value].map(({ words, ends }, way) => {
    const color = css(`--series-${way % MARKERS.length}`);
    return {
      x,
      y: ends.map(end => end && end[0]),
      name: safe(words),
      mode: "lines+markers",
      line: { color, dash: DASHES[way % DASHES.length], width: 1.75 },
      marker: { symbol: MARKERS[way % MARKERS.length], size: 7, color },
      error_y: {
        type: "data",
        symmetric: false,
        array: ends.map(end => end && end[2] - end[0]),
        arrayminus: ends.map(end => end && end[0] - end[1]),
        thickness: 1,
        width: 2,
        color
      },
      text: ends.map((end, i) => end &&
          `${safe(words)}<br><b>${end[0]} %</b> (${end[1]} to ${end[2]})<br>sweep of ${
            safe(past.sweeps[i])}`),
      hovertemplate: "%{text}<extra></extra>",
    };
  });
  window.Plotly.react(element, traces, layout({
    showlegend: true,
    legend: { orientation: "h", y: 1.02, yanchor: "bottom" },
    margin: { l: 52, r: 16, t: 12, b: 44 },
    xaxis: {
      ...dates(past.sweeps, element.clientWidth),
      range: [-0.5, past.sweeps.length - 0.5],
      showgrid: false,
      title: { text: "sweeps, oldest first", standoff: 8 }
    },
    yaxis: { title: { text: "% beyond the median", standoff: 8 }, zeroline: true },
  }),
    { displayModeBar: false, responsive: true });
}

async function openFleet() {
  try {
    await ready();
    drawFleet();
  } catch (error) {
    failed(error);
  }
}

show.fleet = openFleet;

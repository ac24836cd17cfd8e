// Heat maps of all links of a fleet: rows send, columns receive, the slowest nodes come first.

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

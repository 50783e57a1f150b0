// Draws the timeline on the canvas.
// Sizes, in CSS pixels.
const row = nRanks <= 16 ? 26 : nRanks <= 64 ? 15 : 9;
const gap = nRanks <= 16 ? 4 : 1.5;
const held = most === 0 ? 0 : nRanks <= 16 ? 26 : nRanks <= 64 ? 12 : 7;
const left = 24 + 7 * String(nRanks - 1).length + 22, right = 10;
const top = 26, bar = 14;
const memoryTop = top + nRanks * (row + gap) + (held ? 30 : 6);
const height = memoryTop + (held ? nRanks * (held + gap) + 6 : 0) + bar;
let width = 800, from = 0, to = Math.max(1, data.makespan), hovered = null;
const whole = () => Math.max(1, data.makespan);
const x = (time) => left + (time - from) / (to - from) * (width - left - right);
const timeAt = (px) => from + (px - left) / (width - left - right) * (to - from);
const rowY = (rank) => top + rank * (row + gap);
const heldY = (rank) => memoryTop + rank * (held + gap);
let colours = {};
const readColours = () => {
  const style = getComputedStyle(document.documentElement);
  for (const name of ['bg', 'text', 'muted', 'line', 'wait', 'mark']) colours[name] = style.getPropertyValue(`--${name}`).trim();
};
const font = (size, weight = 400) => `${weight} ${size}px system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", Arial, sans-serif`;

const resize = () => {
  width = canvas.clientWidth || 800;
  const ratio = window.devicePixelRatio || 1;
  canvas.style.height = `${height}px`;
  [canvas.width, canvas.height] = [Math.round(width * ratio), Math.round(height * ratio)];
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  request();
};
let requested = false;
const request = () => {
  if (requested) return;
  requested = true;
  requestAnimationFrame(() => { requested = false; draw(); });
};

const ticks = () => {
  const rough = (to - from) / data.perUnit / Math.max(1, (width - left - right) / 80);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((digit) => digit * power).find((step) => step >= rough * (1 - 1e-9)) || 10 * power;
  const times = [];
  for (let n = Math.ceil(from / data.perUnit / step - 1e-9); n * step * data.perUnit <= to * (1 + 1e-12); n++) times.push(n * step);
  return times;
};

const draw = () => {
  pen.fillStyle = colours.bg;
  pen.fillRect(0, 0, width, height);
  pen.textBaseline = 'middle';
  pen.font = font(Math.min(11, row * .5));
  hasTokens = x(shortest) - x(0) >= pen.measureText('0'.repeat(longestToken)).width + 6;
  drawAxis();
  pen.save();
  pen.beginPath();
  pen.rect(left, 0, width - left - right, height);
  pen.clip();
  for (let rank = 0; rank < nRanks; rank++) {
    drawRow(rank);
    if (held) drawHeld(rank);
  }
  if (critical.checked) drawPath();
  if (hovered) drawHovered();
  pen.restore();
  drawNames();
  drawBar();
};

// Whole tokens where most boxes have room for them: mixed with bare microbatches they are hard to read.
const lengths = data.rows.flatMap((row) => row.filter((_, i) => i % SPAN === 4).map((end, i) => end - row[i * SPAN + 3])).sort((a, b) => a - b);
const shortest = lengths[Math.floor(lengths.length / 10)] || 0;
const longestToken = String(data.shades.length - 1).length + 1 + String(data.microbatches - 1).length;
let hasTokens = false;

const drawAxis = () => {
  pen.font = font(11);
  pen.textAlign = 'center';
  for (const time of ticks()) {
    const px = Math.round(x(time * data.perUnit)) + .5;
    if (px < left - 1) continue;
    pen.strokeStyle = colours.line;
    pen.lineWidth = 1;
    pen.beginPath();
    pen.moveTo(px, top - 5);
    pen.lineTo(px, height - bar);
    pen.stroke();
    pen.fillStyle = colours.muted;
    pen.fillText(String(Number(time.toPrecision(10))), px, top - 14);
  }
  pen.textAlign = 'left';
  pen.fillText(unit, 4, top - 14);
  if (held) {
    pen.fillStyle = colours.text;
    pen.font = font(12, 600);
    const what = data.bytes ? 'bytes saved for backwards' : 'microbatches of one chunk saved for backwards';
    pen.fillText(`${what}, at most ${amount(most)}`, 4, memoryTop - 13);
  }
};

const drawNames = () => {
  pen.textAlign = 'right';
  pen.fillStyle = colours.text;
  pen.font = font(Math.min(12, Math.max(8, row * .75)));
  const every = Math.ceil(9 / (row + gap)), everyHeld = held ? Math.ceil(9 / (held + gap)) : 1;
  for (let rank = 0; rank < nRanks; rank++) {
    if (rank % every === 0) pen.fillText(`rank ${rank}`, left - 7, rowY(rank) + row / 2);
    if (held && rank % everyHeld === 0) pen.fillText(`rank ${rank}`, left - 7, heldY(rank) + held / 2);
  }
};

const hatch = (px, py, w, h) => {
  pen.save();
  pen.beginPath();
  pen.rect(px, py, w, h);
  pen.clip();
  pen.strokeStyle = colours.wait;
  pen.lineWidth = 1;
  pen.beginPath();
  for (let at = px - h - (px % 6); at < px + w; at += 6) {
    pen.moveTo(at, py + h);
    pen.lineTo(at + h, py);
  }
  pen.stroke();
  pen.restore();
};

const drawRow = (rank) => {
  const n = count(rank), y = rowY(rank), spans = data.rows[rank];
  let lastPx = -1;
  for (let i = firstEndingAfter(rank, from); i < n; i++) {
    const start = spans[i * SPAN + 3], end = spans[i * SPAN + 4];
    const before = i > 0 ? spans[i * SPAN - 3] : 0;
    const px = x(start), w = x(end) - px;
    if (start > before && i > 0 && px - x(before) > 1) {
      const begin = Math.max(left, x(before));
      hatch(begin, y + row * .3, Math.min(width, px) - begin, row * .4);
    }
    if (start >= to) break;
    // Of what is thinner than a pixel, one is drawn.
    if (w < .5 && Math.floor(px) === lastPx) continue;
    lastPx = Math.floor(px);
    drawBox(spans, i, px, y, w, critical.checked && !onPath[rank][i]);
  }
  for (const index of data.pairs[rank] || []) {
    if (spans[index * SPAN + 3] > to || spans[(index + 1) * SPAN + 4] < from) continue;
    const px = x(spans[index * SPAN + 3]);
    pen.globalAlpha = critical.checked && !onPath[rank][index] && !onPath[rank][index + 1] ? .22 : 1;
    const w = x(spans[(index + 1) * SPAN + 4]) - px, line = Math.min(2, Math.max(.6, w / 16));
    pen.strokeStyle = colours.text;
    pen.lineWidth = line;
    pen.strokeRect(px + line / 2, y, Math.max(.5, w - line - .7), row);
    pen.globalAlpha = 1;
  }
};

const drawBox = (spans, i, px, y, w, dimmed) => {
  const [stage, kind, microbatch] = [spans[i * SPAN], spans[i * SPAN + 1], spans[i * SPAN + 2]];
  const wide = w > 4 ? w - .7 : Math.max(.5, w * .85);
  pen.globalAlpha = dimmed ? .22 : 1;
  pen.fillStyle = data.fills[kind][data.shades[stage]];
  pen.fillRect(px, y, wide, row);
  pen.fillStyle = data.edges[kind];
  const edge = row * .13;
  if (data.sides[kind] & 1) pen.fillRect(px, y, wide, edge);
  if (data.sides[kind] & 2) pen.fillRect(px, y + row - edge, wide, edge);
  if (w > 3) {
    pen.strokeStyle = data.edges[kind];
    pen.lineWidth = .5;
    pen.strokeRect(px, y, wide, row);
  }
  if (row >= 12 && w > 7) {
    pen.font = font(Math.min(11, row * .5));
    const label = hasTokens ? `${stage}${'FBIW'[kind]}${microbatch}` : String(microbatch);
    if (pen.measureText(label).width + 2.5 <= wide) {
      pen.fillStyle = data.ink;
      pen.textAlign = 'center';
      // A box that begins or ends outside of the window has its label where it is seen.
      const [l, r] = [Math.max(px, left), Math.min(px + wide, width - right)];
      if (r - l > pen.measureText(label).width) pen.fillText(label, (l + r) / 2, y + row / 2 + .5);
    }
  }
  pen.globalAlpha = 1;
};

// The levels of a rank as a closed curve; `size` says how much of a level counts.
const curve = (rank, size, fill, stroke) => {
  const levels = data.levels[rank], base = heldY(rank) + held;
  const n = levels.length / LEVEL;
  let i = Math.max(0, firstWhere(n, (i) => levels[i * LEVEL] > from) - 1);
  pen.beginPath();
  pen.moveTo(left, base);
  let y = base;
  for (; i < n && levels[i * LEVEL] <= to; i++) {
    // Of several levels from the same time on, the last is the one that counts.
    if (levels[(i + 1) * LEVEL] === levels[i * LEVEL]) continue;
    const px = Math.max(left, x(levels[i * LEVEL]));
    pen.lineTo(px, y);
    y = base - size(i) / most * held;
    pen.lineTo(px, y);
  }
  pen.lineTo(width - right, y);
  pen.lineTo(width - right, base);
  pen.closePath();
  pen.fillStyle = fill;
  pen.fill();
  pen.strokeStyle = stroke;
  pen.lineWidth = .6;
  pen.stroke();
};
const drawHeld = (rank) => {
  const levels = data.levels[rank];
  const split = !data.bytes && levels.some((level, i) => i % LEVEL === 2 && level > 0);
  if (split) curve(rank, (i) => sizeOf(rank, i), data.fills[WEIGHT][0], data.edges[WEIGHT]);
  curve(rank, split ? (i) => levels[i * LEVEL + 1] : (i) => sizeOf(rank, i), data.fills[FORWARD][0], data.edges[FORWARD]);
};

const frame = (s, colour, line) => {
  pen.strokeStyle = colour;
  pen.lineWidth = line;
  pen.strokeRect(x(s.start), rowY(s.rank) - 1, Math.max(1, x(s.end) - x(s.start) - .7), row + 2);
};
const arrow = (cause, s, colour) => {
  const [x1, y1, x2, y2] = [x(cause.end), rowY(cause.rank) + row / 2, x(s.start), rowY(s.rank) + row / 2];
  pen.strokeStyle = pen.fillStyle = colour;
  pen.lineWidth = 2;
  pen.beginPath();
  pen.moveTo(x1, y1);
  pen.lineTo(x2, y2);
  pen.stroke();
  pen.beginPath();
  pen.arc(x2, y2, 3, 0, 7);
  pen.fill();
};
const drawPath = () => {
  for (let i = 0; i < data.critical.length; i += 2) {
    const s = span(data.critical[i], data.critical[i + 1]);
    if (s.afterRank >= 0) arrow(span(s.afterRank, s.afterIndex), s, colours.mark);
  }
};
const drawHovered = () => {
  const s = hovered;
  frame(s, colours.text, 2);
  if (s.afterRank >= 0) {
    const cause = span(s.afterRank, s.afterIndex);
    frame(cause, colours.mark, 2);
    arrow(cause, s, colours.mark);
  }
};

// Which part of the step is seen.
const drawBar = () => {
  const y = height - bar + 6, w = width - left - right;
  pen.fillStyle = colours.line;
  pen.fillRect(left, y, w, 4);
  pen.fillStyle = colours.muted;
  pen.fillRect(left + from / whole() * w, y, Math.max(6, (to - from) / whole() * w), 4);
};

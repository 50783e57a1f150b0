// Draws the timeline on a canvas, so that it can be zoomed and asked. Without this script the page shows an image instead.
(() => {
  'use strict';
  const holder = document.getElementById('pp-data');
  const data = JSON.parse(holder.textContent);
  const unit = holder.dataset.unit;
  const byId = (id) => document.getElementById(id);
  const [canvas, tip, critical] = [byId('pp-canvas'), byId('pp-tip'), byId('pp-critical')];
  const pen = canvas.getContext('2d');
  if (!pen) return;
  const [F, B, I, W] = [0, 1, 2, 3];
  const KINDS = ['forward', 'full backward', 'input gradient', 'weight gradient'];
  const SPAN = 7, LEVEL = 4;
  const nRanks = data.rows.length;
  const onPath = data.rows.map((row) => new Uint8Array(row.length / SPAN));
  for (let i = 0; i < data.critical.length; i += 2) onPath[data.critical[i]][data.critical[i + 1]] = 1;

  // A computation by rank and number.
  const span = (rank, index) => {
    const at = index * SPAN, row = data.rows[rank];
    const [stage, kind, microbatch, start, end, afterRank, afterIndex] = row.slice(at, at + SPAN);
    return { rank, index, stage, kind, microbatch, start, end, afterRank, afterIndex, token: `${stage}${'FBIW'[kind]}${microbatch}` };
  };
  const count = (rank) => data.rows[rank].length / SPAN;
  // The first number for which `is` holds, of numbers for which it holds from some on.
  const firstWhere = (n, is) => {
    let [low, high] = [0, n];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (is(middle)) high = middle; else low = middle + 1;
    }
    return low;
  };
  const firstEndingAfter = (rank, time) => firstWhere(count(rank), (i) => data.rows[rank][i * SPAN + 4] > time);
  const sizeOf = (rank, level) => {
    const at = level * LEVEL, levels = data.levels[rank];
    return data.bytes ? levels[at + 3] : levels[at + 1] + levels[at + 2];
  };
  const most = data.levels.reduce((most, levels, rank) => {
    for (let i = 0; i < levels.length / LEVEL; i++) most = Math.max(most, sizeOf(rank, i));
    return most;
  }, 0);

  const number = (ticks) => {
    const value = ticks / data.perUnit;
    return value === 0 ? '0' : String(Number(value.toPrecision(6)));
  };
  const amount = (size) => {
    if (!data.bytes || size < 1024) return data.bytes ? `${size} B` : String(size);
    const power = Math.min(6, Math.floor(Math.log2(size) / 10));
    const value = size / 1024 ** power;
    return `${value.toFixed(value < 10 ? 2 : value < 100 ? 1 : 0)} ${['KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB'][power - 1]}`;
  };

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
      const what = data.bytes ? 'memory kept for backwards' : 'microbatches of one chunk kept for backwards';
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
      pen.strokeStyle = colours.text;
      pen.lineWidth = 2;
      pen.strokeRect(px + 1, y, Math.max(1, x(spans[(index + 1) * SPAN + 4]) - px - 2), row);
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
      const token = `${stage}${'FBIW'[kind]}${microbatch}`;
      const label = [token, String(microbatch)].find((text) => pen.measureText(text).width + 4 <= wide);
      if (label) {
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
    if (split) curve(rank, (i) => sizeOf(rank, i), data.fills[W][0], data.edges[W]);
    curve(rank, split ? (i) => levels[i * LEVEL + 1] : (i) => sizeOf(rank, i), data.fills[F][0], data.edges[F]);
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

  const show = (a, b) => {
    const length = Math.min(whole(), Math.max(b - a, Math.min(whole(), 2)));
    from = Math.min(Math.max(0, a), whole() - length);
    to = from + length;
    request();
  };
  const zoom = (factor, around = (from + to) / 2) => {
    const length = Math.min(whole(), (to - from) * factor);
    const share = (around - from) / (to - from);
    show(around - share * length, around + (1 - share) * length);
  };
  const pan = (ticks) => show(from + ticks, to + ticks);

  // What is at a place: a computation, or the wait before one.
  const at = (px, py) => {
    const time = timeAt(px);
    if (px < left || px > width - right) return null;
    const inRows = py >= top && py < top + nRanks * (row + gap);
    const rank = Math.floor(inRows ? (py - top) / (row + gap) : (py - memoryTop) / (held + gap));
    if (rank < 0 || rank >= nRanks || (!inRows && (!held || py < memoryTop))) return null;
    const index = firstEndingAfter(rank, time);
    const s = index < count(rank) ? span(rank, index) : null;
    return { rank, time, inRows, span: s, waits: s !== null && s.start > time };
  };
  const levelAt = (rank, time) => {
    const levels = data.levels[rank];
    const i = firstWhere(levels.length / LEVEL, (i) => levels[i * LEVEL] > time) - 1;
    if (levels.length === 0) return null;
    if (i < 0) return 'nothing';
    const [inFlight, deferred, bytes] = levels.slice(i * LEVEL + 1, i * LEVEL + 4);
    const counts = `${inFlight} in flight${deferred ? `, ${deferred} weight gradients put off` : ''}`;
    return data.bytes ? `${amount(bytes)} (${counts})` : counts;
  };
  const linesOf = (place) => {
    const s = place.span, lines = [];
    const memory = levelAt(place.rank, place.waits || !place.inRows || !s ? place.time : s.start);
    if (!place.inRows) {
      lines.push(`rank ${place.rank} at ${number(place.time)} ${unit}`);
    } else if (!s) {
      lines.push(`rank ${place.rank} is done`);
    } else {
      const before = s.index > 0 ? span(s.rank, s.index - 1).end : 0;
      if (place.waits) lines.push(`rank ${s.rank} ${s.index > 0 ? 'waits' : 'has not begun'}`, `next: ${s.token} at ${number(s.start)} ${unit}`);
      else lines.push(`${s.token}: ${KINDS[s.kind]}`, `stage ${s.stage}, microbatch ${s.microbatch}, rank ${s.rank}`, `${number(s.start)} to ${number(s.end)}: ${number(s.end - s.start)} ${unit}`);
      const cause = s.afterRank >= 0 ? span(s.afterRank, s.afterIndex) : null;
      if (cause) lines.push(`${s.start > before ? `waited ${number(s.start - before)} ${unit} for` : 'started after'} ${cause.token} of rank ${cause.rank}, which ended at ${number(cause.end)}`);
      else if (s.start > before) lines.push(`waited ${number(s.start - before)} ${unit}`);
      if (onPath[s.rank][s.index] && !place.waits) lines.push('on the critical path');
    }
    if (memory) lines.push(`keeps: ${memory}`);
    return lines;
  };
  const showTip = (event) => {
    const box = canvas.getBoundingClientRect();
    const place = at(event.clientX - box.left, event.clientY - box.top);
    hovered = place && place.inRows ? place.span : null;
    tip.hidden = !place;
    if (place) {
      const [first, ...rest] = linesOf(place);
      tip.textContent = '';
      tip.appendChild(document.createElement('b')).textContent = first;
      for (const line of rest) tip.appendChild(document.createElement('span')).textContent = line;
      const right = event.clientX + 16 + tip.offsetWidth > window.innerWidth;
      const below = event.clientY + 16 + tip.offsetHeight > window.innerHeight;
      tip.style.left = `${Math.max(4, right ? event.clientX - tip.offsetWidth - 12 : event.clientX + 16)}px`;
      tip.style.top = `${Math.max(4, below ? event.clientY - tip.offsetHeight - 12 : event.clientY + 16)}px`;
    }
    request();
  };

  let dragged = null;
  canvas.addEventListener('pointerdown', (event) => {
    dragged = event.clientX;
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener('pointermove', (event) => {
    if (dragged !== null && event.clientX !== dragged) {
      pan((dragged - event.clientX) / (width - left - right) * (to - from));
      dragged = event.clientX;
    }
    showTip(event);
  });
  const drop = () => { dragged = null; };
  canvas.addEventListener('pointerup', drop);
  canvas.addEventListener('pointercancel', drop);
  canvas.addEventListener('pointerleave', () => { hovered = null; tip.hidden = true; request(); });
  canvas.addEventListener('dblclick', (event) => zoom(.5, timeAt(event.clientX - canvas.getBoundingClientRect().left)));
  canvas.addEventListener('wheel', (event) => {
    if (event.ctrlKey || event.metaKey) {
      event.preventDefault();
      zoom(Math.exp(Math.sign(event.deltaY) * Math.min(.5, Math.abs(event.deltaY) / 300)), timeAt(event.clientX - canvas.getBoundingClientRect().left));
    } else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      event.preventDefault();
      pan((event.deltaX || event.deltaY) / (width - left - right) * (to - from));
    }
  }, { passive: false });
  canvas.addEventListener('keydown', (event) => {
    const step = (to - from) / 8;
    const actions = {
      '+': () => zoom(.7), '=': () => zoom(.7), '-': () => zoom(1 / .7), '0': () => show(0, whole()),
      ArrowLeft: () => pan(-step), ArrowRight: () => pan(step), Home: () => pan(-whole()), End: () => pan(whole()),
    };
    const action = event.ctrlKey || event.metaKey || event.altKey ? null : actions[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  });
  byId('pp-in').addEventListener('click', () => zoom(.5));
  byId('pp-out').addEventListener('click', () => zoom(2));
  byId('pp-fit').addEventListener('click', () => show(0, whole()));
  critical.addEventListener('change', request);

  byId('pp-static').hidden = true;
  byId('pp-live').hidden = false;
  readColours();
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => { readColours(); request(); });
  new ResizeObserver(resize).observe(canvas);
  resize();
})();

// Moves the window over the timeline, and says what the pointer rests on.
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
  const counts = `${inFlight} in flight${deferred ? `, ${deferred} deferred weight gradients` : ''}`;
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

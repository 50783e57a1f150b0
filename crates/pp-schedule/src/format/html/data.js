// The data of the page, and how they are read and told.
const holder = document.getElementById('pp-data');
const data = JSON.parse(holder.textContent);
const KINDS = data.kinds;
const unit = holder.dataset.unit;
const byId = (id) => document.getElementById(id);
const [canvas, tip, critical] = [byId('pp-canvas'), byId('pp-tip'), byId('pp-critical')];
const pen = canvas.getContext('2d');
const FORWARD = 0, WEIGHT = 3;
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
  return `${value.toFixed(value < 10 ? 3 : value < 100 ? 2 : 1)} ${['KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB'][power - 1]}`;
};

// The canvas: drawing, zoom, drag.
const V = (() => {
  const canvas = document.getElementById('map'), pen = canvas.getContext('2d'), view = { x: 0, y: 0, k: 1 };
  let scene = { root: { w: 1, h: 1, kids: [] }, items: [], edges: [] }, wide = 1, high = 1, pending = false, theme = {};
  const state = { at: null, hits: new Set(), colour: 'kind', most: 1 };
  const FONT = 'px system-ui, sans-serif';
  const units = (v, unit) => { if (unit === 's') { for (const [p, f] of [['s', 1], ['ms', 1e-3], ['\u00b5s', 1e-6]])
      if (v >= f) return +(v / f).toPrecision(3) + ' ' + p; return +(v * 1e9).toPrecision(3) + ' ns'; }
    for (const [p, f] of [['P', 1e15], ['T', 1e12], ['G', 1e9], ['M', 1e6], ['k', 1e3]])
      if (v >= f) return +(v / f).toPrecision(3) + ' ' + p + unit; return +v.toPrecision(3) + ' ' + unit; };
  const UNITS = { time: 's', flops: 'FLOP', bytes: 'B', size: 'B', peak: 'B' };
  const value = (item) => item.value === undefined ? (item.value = M.total(state.colour, item.ids)) : item.value;
  function restyle() {
    const css = getComputedStyle(document.documentElement), names = ['bg', 'fg', 'dim', 'line', 'box', 'group', 'edge', 'in',
      'out', 'hot', ...D.colours.map((k) => 'k-' + k), ...Object.values(D.marks).flatMap((m) => m.words).map((k) => 'k-' + k)];
    theme = Object.fromEntries(names.map((k) => [k, css.getPropertyValue('--' + k).trim()]));
    redraw();
  }
  const rgb = (hex) => [1, 3, 5].map((k) => parseInt(hex.slice(k, k + 2), 16));
  const mix = (a, b, t) => { const x = rgb(a), y = rgb(b); return `rgb(${x.map((v, k) => Math.round(v + (y[k] - v) * t)).join()})`; };
  function fill(item) {
    const mark = item.open || item.id === undefined ? null : M.mark(state.colour, item.id);
    if (mark) return theme['k-' + mark[0]];
    if (state.colour !== 'kind') return item.open ? theme.group : mix(theme.box, theme.hot, Math.sqrt(Math.min(1, value(item) / state.most)) * (D.marks[state.colour] ? 0.6 : 1));
    if (item.open) return theme.group;
    return item.id === undefined ? theme.box : theme['k-' + M.op(item.id)[1]];
  }
  const cut = (text, most) => text.length <= most ? text : text.slice(0, most * 0.6 | 0) + '\u2026' + text.slice(text.length - (most * 0.4 | 0) + 1);
  function lines(item) {
    if (item.id === undefined) return [item.label, item.ids.length.toLocaleString('en') + ' instructions'];
    // What a fusion is called says nothing, what it was made from does.
    const from = M.op(item.id)[1] === 'call' ? ' ' + M.tail(item.id) : '';
    return [D.name[item.id], M.op(item.id)[0] + from + ' ' + M.S[D.shape[item.id]]];
  }
  function box(item) {
    const k = view.k, x = item.x * k + view.x, y = item.y * k + view.y, w = item.w * k, h = item.h * k;
    if (x > wide || y > high || x + w < 0 || y + h < 0) return;
    pen.fillStyle = fill(item);
    if (w < 4) { pen.fillRect(x, y, Math.max(w, 0.7), Math.max(h, 0.7)); return; }
    pen.beginPath(); pen.roundRect(x, y, w, h, Math.min(6, 5 * k)); pen.fill();
    const chosen = state.at !== null && item.id === state.at, hit = item.hit;
    pen.strokeStyle = chosen ? theme.in : hit ? theme.out : theme.line;
    pen.lineWidth = chosen || hit ? 3 : item.id === undefined || item.canOpen ? 1.5 : 1;
    if (w > 8 || hit) { if (item.canOpen && item.id === undefined && !item.open) pen.setLineDash([5, 3]); pen.stroke(); pen.setLineDash([]); }
    const [first, second] = lines(item);
    // A label is as large as its box, and no smaller than one can read while there is room for it.
    const at = Math.max(0, x), room = Math.min(wide, x + w) - at, size = item.open ? Math.min(14, Math.max(7, 12 * k)) : 12 * k;
    if (room < 30) return;
    pen.fillStyle = theme.fg;
    const write = (text, dx, dy, px) => { pen.font = px + FONT; const most = (room - 2 * dx) / (px * 0.55) | 0;
      if (most > 2) pen.fillText(cut(text, most), at + dx, dy); };
    if (item.open) { if (24 * k > size) write('\u25be ' + first + (item.id === undefined ? '' : '  ' + M.op(item.id)[0]), 6, Math.max(y, 0) + size + 3, size); return; }
    const scale = Math.max(size, Math.min(11, h * 0.8));
    if (scale < 5.5) return;
    const two = scale * 2.4 < h;
    write((item.canOpen ? '\u25b8 ' : '') + first, 5 * Math.min(1, k), y + (two ? h * 0.42 : h * 0.66), scale);
    pen.fillStyle = theme.dim;
    const amount = state.colour === 'kind' || D.marks[state.colour] ? '' : value(item) ? units(value(item), UNITS[state.colour]) + '  ' : '';
    if (two) write(amount + second, 5 * Math.min(1, k), y + h * 0.82, scale * 0.86);
  }
  function draw() {
    pending = false;
    const ratio = window.devicePixelRatio || 1;
    pen.setTransform(ratio, 0, 0, ratio, 0, 0); pen.fillStyle = theme.bg; pen.fillRect(0, 0, wide, high);
    const opened = scene.items.filter((item) => item.open), shut = scene.items.filter((item) => !item.open);
    for (const item of opened) box(item);
    edges();
    for (const item of shut) box(item);
    for (const item of opened) banner(item);
  }
  // From afar an open box has no room for its name: that lies on what is in it, where the box is large.
  function banner(item) {
    const k = view.k, x = Math.max(0, item.x * k + view.x), y = Math.max(0, item.y * k + view.y);
    const right = Math.min(wide, (item.x + item.w) * k + view.x), low = Math.min(high, (item.y + item.h) * k + view.y);
    if (24 * k > 7 || right - x < 70 || low - y < 60) return;
    pen.font = 11 + FONT; const text = cut(lines(item)[0], Math.min(40, (right - x) / 6.2 | 0));
    pen.fillStyle = theme.box; pen.fillRect(x + 2, y + 2, pen.measureText(text).width + 8, 15);
    pen.fillStyle = theme.fg; pen.fillText(text, x + 6, y + 13);
  }
  function edges() {
    const { k } = view, paths = [new Path2D(), new Path2D(), new Path2D()], tiny = k < 0.12;
    let drawn = 0;
    for (const { a, b } of scene.edges) {
      const lit = state.at === null ? 0 : b.id === state.at ? 1 : a.id === state.at ? 2 : 0;
      const x = (a.x + a.w / 2) * k + view.x, X = (b.x + b.w / 2) * k + view.x;
      const inside = a.open && b.y >= a.y && b.y < a.y + a.h, y = (a.y + (inside ? 0 : a.h)) * k + view.y, Y = b.y * k + view.y;
      if (Math.max(x, X) < 0 || Math.min(x, X) > wide || Math.max(y, Y) < 0 || Math.min(y, Y) > high) continue;
      // From afar many lines are one grey; the first of them say as much.
      if (!lit && tiny && ++drawn > 20000) continue;
      const p = paths[lit]; p.moveTo(x, y);
      if (tiny) { p.lineTo(X, Y); continue; }
      const bend = Math.max(12 * k, Math.min(Math.abs(Y - y) / 2, 120 * k));
      p.bezierCurveTo(x, y + bend, X, Y - bend, X, Y);
    }
    const strokes = [[theme.edge, Math.max(0.4, Math.min(1.2, k))], [theme.in, 2], [theme.out, 2]];
    paths.forEach((p, n) => { [pen.strokeStyle, pen.lineWidth] = strokes[n]; pen.stroke(p); });
  }
  function redraw() { if (!pending) { pending = true; requestAnimationFrame(draw); } }
  function resize() { wide = canvas.clientWidth; high = canvas.clientHeight; const ratio = window.devicePixelRatio || 1;
    canvas.width = wide * ratio; canvas.height = high * ratio; redraw(); }
  function show(made) { scene = made; recolour(); }
  function recolour() {
    for (const item of scene.items) item.value = undefined;
    state.most = 1e-30;
    if (state.colour !== 'kind') for (const item of scene.items) if (!item.open) state.most = Math.max(state.most, value(item));
    mark(state.hits);
  }
  function mark(hits) { state.hits = hits; for (const item of scene.items) item.hit = hits.size > 0 && !item.open && item.ids.some((i) => hits.has(i)); redraw(); }
  const bound = (k) => Math.min(4, Math.max(0.004, k));
  function zoom(x, y, factor) { const k = bound(view.k * factor), f = k / view.k;
    view.x = x - (x - view.x) * f; view.y = y - (y - view.y) * f; view.k = k; redraw(); }
  function fit(item = scene.root, most = 1.2) {
    const k = bound(Math.min(most, (wide - 30) / item.w, (high - 30) / item.h));
    view.k = k; view.x = (wide - item.w * k) / 2 - (item.x || 0) * k; view.y = (high - item.h * k) / 2 - (item.y || 0) * k; redraw(); }
  // At first as much as can be read: the whole, or its beginning.
  function begin() { fit(); if (view.k < 0.45) { view.k = 0.6; view.y = 20; view.x = wide / 2 - scene.root.w / 2 * view.k; redraw(); } }
  function centre(item) { view.k = Math.max(view.k, item.open ? 0.3 : 0.75); view.x = wide / 2 - (item.x + item.w / 2) * view.k;
    view.y = high / 2 - (item.y + Math.min(item.h, 300) / 2) * view.k; redraw(); }
  function hitTest(px, py) { const x = (px - view.x) / view.k, y = (py - view.y) / view.k; let found = null;
    for (const item of scene.items) if (x >= item.x && x <= item.x + item.w && y >= item.y && y <= item.y + item.h
      && (!found || item.depth > found.depth)) found = item;
    return found; }
  const where = (item) => ({ x: item.x * view.k + view.x, y: item.y * view.k + view.y, w: item.w * view.k, h: item.h * view.k });

  // One pointer drags, two pinch, the wheel zooms; what does not move is a click.
  const fingers = new Map(); let moved = 0, handlers = {};
  const local = (e) => { const r = canvas.getBoundingClientRect(); return [e.clientX - r.left, e.clientY - r.top]; };
  canvas.addEventListener('wheel', (e) => { e.preventDefault(); const [x, y] = local(e);
    zoom(x, y, Math.exp(-e.deltaY * (e.deltaMode ? 0.05 : e.ctrlKey ? 0.01 : 0.0015))); }, { passive: false });
  canvas.addEventListener('pointerdown', (e) => { canvas.setPointerCapture(e.pointerId); if (!fingers.size) moved = 0; fingers.set(e.pointerId, local(e)); });
  canvas.addEventListener('pointermove', (e) => {
    const old = fingers.get(e.pointerId), now = local(e);
    if (!old) { if (handlers.hover) handlers.hover(hitTest(...now), e.clientX, e.clientY); return; }
    if (fingers.size === 2) { const other = [...fingers].find(([id]) => id !== e.pointerId)[1];
      const far = (p) => Math.hypot(p[0] - other[0], p[1] - other[1]) || 1; zoom(...other, far(now) / far(old)); moved = 99; }
    else { view.x += now[0] - old[0]; view.y += now[1] - old[1]; moved += Math.abs(now[0] - old[0]) + Math.abs(now[1] - old[1]); redraw(); }
    fingers.set(e.pointerId, now); });
  const lift = (e) => { fingers.delete(e.pointerId); };
  canvas.addEventListener('pointerup', (e) => { lift(e); if (moved < 5 && handlers.click) handlers.click(hitTest(...local(e))); });
  canvas.addEventListener('pointercancel', lift);
  canvas.addEventListener('dblclick', (e) => { if (handlers.open) handlers.open(hitTest(...local(e))); });
  window.addEventListener('resize', resize);
  return { state, view, show, recolour, restyle, resize, redraw, mark, zoom, fit, begin, centre, where, units, UNITS, cut,
    on: (h) => { handlers = h; }, scene: () => scene };
})();

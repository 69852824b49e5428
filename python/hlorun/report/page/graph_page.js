// The page: what is open and chosen, the panels, search, and the address that says it all.
const $ = (id) => document.getElementById(id), open = new Set(), info = $('info'), list = $('list');
let only = null, now = { at: null, near: 0, from: null, to: null };
const label = (i) => D.name[i];
function make(tag, text, attrs = {}) { const e = document.createElement(tag); if (text) e.textContent = text;
  for (const k in attrs) { if (k === 'go') e.onclick = attrs.go; else e.setAttribute(k, attrs[k]); } return e; }

function relay(anchor) {
  const before = anchor && V.scene().items.find((item) => item.key === anchor), old = before && V.where(before);
  V.show(L.lay(open, only));
  const after = anchor && V.scene().items.find((item) => item.key === anchor);
  // What one opens stays under the pointer.
  if (old && after) { const w = V.where(after); V.view.x += old.x + old.w / 2 - (w.x + w.w / 2); V.view.y += old.y - w.y; V.redraw(); }
}
function toggle(item) {
  if (!item || !item.canOpen || only) return;
  if (open.has(item.key)) open.delete(item.key); else open.add(item.key);
  relay(item.key);
}
// Opens whatever stands around an instruction, from the entry inwards.
function reveal(i) {
  const chain = [], steps = []; let comp = M.home[i], at = i;
  while (at >= 0 && chain.length < 500) { chain.unshift(at); if (comp === 0) break; at = M.caller[comp]; comp = at < 0 ? 0 : M.home[at]; }
  if (at < 0) return null;
  let prefix = '', inside = 0;
  for (const [n, id] of chain.entries()) {
    const groups = []; const g = seat(M.tree(inside), id);
    if (!g) return null;
    for (let k = g; k && k.up; k = k.up) groups.unshift(k.label);
    for (const name of groups) { prefix += '/g:' + name; steps.push(prefix); }
    prefix += '/' + id;
    if (n + 1 < chain.length) { steps.push(prefix); inside = M.home[chain[n + 1]];
      const called = M.calls(id);
      if (called.length > 1) { const which = called.indexOf(inside); prefix += '/' + which;
        const shown = M.op(id)[2] !== 'while' || D.comps[inside].name === D.body[id];
        if (shown) open.delete(prefix); else steps.push(prefix); } }
  }
  for (const step of steps) open.add(step);
  return prefix;
}
function seat(g, i) { if (g.leaves.includes(i)) return g;
  for (const k of g.groups.values()) { const found = seat(k, i); if (found) return found; } return null; }

function choose(i, write = true) {
  now.at = i; V.state.at = i;
  if (i !== null) {
    if (M.folded(i) && !$('plumbing').checked) { $('plumbing').checked = true; M.fold(false); relay(); }
    if (!V.scene().items.some((item) => item.id === i)) { if (only) { only = null; now.near = 0; now.from = now.to = null; }
      reveal(i); relay(); }
    const item = V.scene().items.find((it) => it.id === i);
    if (item) V.centre(item);
  }
  about(i); if (write) remember(); V.redraw();
}
function isolate(ids, note) { only = ids; relay(); V.fit(); say(note); }
function say(text) { $('note').textContent = text; $('whole').hidden = !only; }
function near(i, steps) { now = { at: i, near: steps, from: null, to: null }; V.state.at = i; const ids = M.near(i, steps);
  isolate(ids.slice(0, 3000), ids.length.toLocaleString('en') + ' within ' + steps + (steps > 1 ? ' steps of ' : ' step of ') + label(i)); about(i); remember(); }
function way(a, b) { const found = M.between(a, b); now = { at: b, near: 0, from: a, to: b };
  if (!found.ids.length) { say('nothing leads from ' + label(a) + ' to ' + label(b) + ', nor back'); return; }
  V.state.at = b; isolate(found.ids, (found.all ? 'all ways, ' : 'the shortest way, ') + found.ids.length + ' instructions, between ' + label(a) + ' and ' + label(b));
  about(b); remember(); }
function whole() { only = null; now.near = 0; now.from = now.to = null; say(''); relay(); if (now.at !== null) choose(now.at); else { V.begin(); remember(); } }

function about(i) {
  info.replaceChildren(); info.hidden = i === null; if (i === null) return;
  const line = (name, ...parts) => { const d = make('div'); d.append(make('b', name + ' '), ...parts); info.append(d); };
  const link = (j) => make('a', V.cut(label(j), 44), { go: () => choose(j), title: M.op(j)[0] + ' ' + M.S[D.shape[j]] });
  const many = (ids) => { const f = document.createDocumentFragment(); for (const j of ids.slice(0, 30)) f.append(link(j), ' ');
    if (ids.length > 30) f.append('and ' + (ids.length - 30) + ' more'); return f; };
  info.append(make('h2', label(i)));
  line(M.op(i)[0], M.S[D.shape[i]], D.size[i] ? ', ' + V.units(D.size[i], 'B') : '');
  for (const kind in D.overlays) { const v = M.inclusive(kind, i), mark = M.mark(kind, i);
    if (mark) line(D.words[kind] + ': ' + mark[0], mark[1]); else if (v && D.marks[kind]) line(D.words[kind], 'inside');
    else if (v && kind !== 'size') line(D.words[kind], V.units(v, V.UNITS[kind])); }
  if (M.S[D.opname[i]]) line('op_name', M.S[D.opname[i]]);
  if (M.S[D.source[i]]) line('source', make('a', M.S[D.source[i]], { go: () => search('source:' + M.S[D.source[i]]) }));
  const comp = M.home[i], at = M.caller[comp];
  line('in', D.comps[comp].name, ...(at >= 0 ? [', called by ', link(at)] : []));
  if (D.operands[i].length) line('operands', many(D.operands[i]));
  if (M.users[i]) line('users', many(M.users[i]));
  if (M.calls(i).length) line('calls', M.calls(i).map((c) => D.comps[c].name).join(', '));
  const bar = make('div', '', { class: 'bar' }), steps = make('input', '', { type: 'number', min: 1, max: 99, value: now.near || 2, id: 'steps', title: 'steps' });
  bar.append(steps, make('button', 'steps around it', { id: 'near', go: () => near(i, Math.max(1, +steps.value || 1)) }),
    make('button', now.from === null || now.from === i || now.to !== null ? 'a way from here' : 'the way from ' + V.cut(label(now.from), 20) + ' to here', { id: 'way', go: () => {
      if (now.from === null || now.from === i || now.to !== null) { now.from = i; now.to = null; say('choose where the way from ' + label(i) + ' ends'); }
      else way(now.from, i); } }));
  const item = V.scene().items.find((it) => it.id === i);
  if (item && item.canOpen && !only) bar.append(make('button', item.open ? 'close' : 'open', { id: 'open', go: () => { toggle(item); about(i); } }));
  info.append(bar);
}

let hits = [], turn = -1;
function rows(title, ids, note) {
  list.replaceChildren(make('h2', title)); list.hidden = !title;
  ids.slice(0, 200).forEach((i) => { const d = make('div', '', { go: () => choose(i) });
    d.append(make('b', V.cut(label(i), 40)), make('i', note ? note(i) : M.op(i)[0]), make('small', M.S[D.opname[i]] || M.S[D.shape[i]])); list.append(d); });
  if (ids.length > 200) list.append(make('small', 'and ' + (ids.length - 200).toLocaleString('en') + ' more'));
}
function search(text) {
  if ($('find').value !== text) $('find').value = text;
  hits = text.length < 2 ? [] : M.find(text); turn = -1;
  V.mark(new Set(hits)); if (text.length < 2) dearest(); else rows(hits.length.toLocaleString('en') + ' found', hits);
}
function dearest() {
  const kind = V.state.colour; if (kind === 'kind') { rows('', []); return; }
  if (D.marks[kind]) { marked(kind); return; }
  const ids = Object.keys(D.overlays[kind]).map(Number).filter((i) => !M.folded(i) || kind === 'size' || kind === 'peak');
  ids.sort((a, b) => D.overlays[kind][b] - D.overlays[kind][a]);
  rows('most ' + D.words[kind], ids.slice(0, 200), (i) => V.units(D.overlays[kind][i], V.UNITS[kind]));
}
function marked(kind) {
  const { words, of, others } = D.marks[kind], ids = Object.keys(of).map(Number), count = (n) => n.toLocaleString('en');
  ids.sort((a, b) => words.indexOf(of[a][0]) - words.indexOf(of[b][0]) || a - b);
  rows(D.words[kind] + ': ' + (ids.length || others.length ? count(ids.length) + (ids.length === 1 ? ' instruction' : ' instructions') : 'none'), ids, (i) => of[i][0]);
  if (others.length) list.append(make('h2', count(others.length) + ' only in the other module'));
  for (const [where, text] of others.slice(0, 200)) list.append(make('small', where + ': ' + text, { title: text }));
  if (others.length > 200) list.append(make('small', 'and ' + count(others.length - 200) + ' more'));
}
function legend(kind) {
  const words = kind === 'kind' ? D.colours : D.marks[kind] ? D.marks[kind].words : [];
  $('key').replaceChildren(); $('key').hidden = !words.length;
  for (const k of words) { const s = make('span', k, { class: 'k' }); s.style.background = `var(--k-${k})`; $('key').append(s, ' '); }
}
function colour(kind) { if (kind !== 'kind' && !Object.hasOwn(D.overlays, kind)) kind = 'kind';
  V.state.colour = $('colour').value = kind; legend(kind); V.recolour(); if (!$('find').value) dearest(); }

// The address says what is seen, so that it can be sent to someone, and back and forth work.
let restoring = false;
function remember() {
  if (restoring) return;
  const parts = []; const put = (k, v) => { if (v) parts.push(k + '=' + encodeURIComponent(v)); };
  if (now.from !== null && now.to !== null) { put('from', label(now.from)); put('to', label(now.to)); }
  else { put('at', now.at === null ? '' : label(now.at)); put('near', now.near || ''); }
  put('colour', V.state.colour === D.first ? '' : V.state.colour); put('find', $('find').value); put('plumbing', $('plumbing').checked ? 1 : '');
  const hash = '#' + parts.join('&'); if (hash !== location.hash && (hash !== '#' || location.hash)) history.pushState(null, '', hash);
}
function restore() {
  restoring = true;
  const said = Object.fromEntries(location.hash.slice(1).split('&').filter(Boolean).map((p) => p.split('=').map(decodeURIComponent)));
  const id = (name) => M.byName.has(name) ? M.byName.get(name) : null, at = id(said.at), from = id(said.from), to = id(said.to);
  if ($('plumbing').checked !== !!said.plumbing) { $('plumbing').checked = !!said.plumbing; M.fold(!$('plumbing').checked); }
  only = null; now = { at: null, near: 0, from: null, to: null }; V.state.at = null; say('');
  relay(); colour(said.colour || D.first); if (said.find || $('find').value) search(said.find || '');
  if (from !== null && to !== null) way(from, to); else if (at !== null && said.near) near(at, +said.near);
  else if (at !== null) choose(at); else { V.begin(); about(null); if (said.at || said.from) say('the module has no ' + (said.at || said.from)); }
  restoring = false;
}

function start() {
  for (const kind in D.overlays) $('colour').append(make('option', D.words[kind], { value: kind }));
  // Groups open as long as all can be taken in at a glance.
  const rest = [...M.tree(0).groups.values()].map((g) => [g, '']); let seen = rest.length + M.tree(0).leaves.length;
  for (const [g, prefix] of rest) { const more = g.groups.size + g.leaves.length; if (seen + more > 70) continue; seen += more;
    const path = prefix + '/g:' + g.label; open.add(path); for (const k of g.groups.values()) rest.push([k, path]); }
  V.on({ click: (item) => { if (!item) { choose(null); return; } if (item.id !== undefined) { now.at = item.id; V.state.at = item.id; about(item.id); remember(); V.redraw(); } },
    open: toggle, hover: (item, x, y) => { const tip = $('tip'); tip.hidden = !item || item.open; if (tip.hidden) return;
      tip.textContent = item.id === undefined ? item.label + ', ' + item.ids.length + ' instructions' : label(item.id) + ' = ' + M.S[D.shape[item.id]] + ' ' + M.op(item.id)[0] + '\n' + M.S[D.opname[item.id]] + '\n' + M.S[D.source[item.id]];
      tip.style.left = Math.min(x + 14, innerWidth - 420) + 'px'; tip.style.top = Math.min(y + 14, innerHeight - 80) + 'px'; } });
  let timer = 0;
  const look = () => { clearTimeout(timer); timer = 0; search($('find').value); };
  $('find').oninput = () => { clearTimeout(timer); timer = setTimeout(look, M.N > 20000 ? 150 : 0); };
  $('find').onkeydown = (e) => { if (e.key === 'Enter' && timer) look(); if (e.key === 'Enter' && hits.length) { turn = (turn + (e.shiftKey ? -1 : 1) + hits.length) % hits.length; choose(hits[turn]); }
    if (e.key === 'Escape') { search(''); remember(); e.target.blur(); } };
  $('colour').onchange = (e) => { colour(e.target.value); remember(); };
  $('plumbing').onchange = (e) => { M.fold(!e.target.checked); relay(); remember(); };
  $('fit').onclick = () => V.fit(); $('whole').onclick = whole;
  $('theme').onclick = () => { const root = document.documentElement, dark = root.dataset.theme ? root.dataset.theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
    root.dataset.theme = dark ? 'light' : 'dark'; V.restyle(); };
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', V.restyle);
  addEventListener('popstate', restore); addEventListener('hashchange', restore);
  addEventListener('keydown', (e) => { if (/INPUT|SELECT/.test(e.target.tagName)) return;
    if (e.key === '/') { e.preventDefault(); $('find').focus(); } if (e.key === 'f') V.fit();
    if (e.key === '+' || e.key === '-') V.zoom(innerWidth / 2, innerHeight / 2, e.key === '+' ? 1.25 : 0.8);
    if (e.key === 'Escape') { if (only) whole(); else choose(null); }
    const item = V.scene().items.find((it) => it.id === now.at); if (e.key === 'Enter' && item) toggle(item); });
  V.resize(); V.restyle(); restore();
  requestAnimationFrame(() => requestAnimationFrame(() => { window.painted = performance.now(); }));
}
start();

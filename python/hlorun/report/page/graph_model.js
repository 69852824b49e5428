// The module: instructions by number, what feeds what once plumbing is folded away, groups by op_name.
const M = (() => {
  const S = D.strings, N = D.name.length, op = (i) => D.ops[D.op[i]];
  const PLUMBING = new Set(['parameter', 'constant', 'tuple', 'get-tuple-element', 'bitcast', 'copy', 'copy-start',
    'copy-done', 'after-all', 'opt-barrier', 'add-dependency', 'domain']);
  // These pass their operands to the parameters of what they call, in order.
  const HANDS_ON = new Set(['fusion', 'call', 'async-start']);
  const MOST_LEAVES = 300, FEWEST_LEAVES = 3;
  const home = new Int32Array(N), users = [], caller = D.comps.map(() => -1), callers = D.comps.map(() => 0);
  D.comps.forEach((c, n) => { for (let i = c.s; i < c.s + c.c; i++) home[i] = n; });
  const calls = (i) => D.calls[i] || [];
  for (const i in D.calls) for (const c of D.calls[i]) { if (caller[c] < 0) caller[c] = +i; callers[c]++; }
  let plumbing = false;
  const folded = (i) => { if (plumbing) return false; const o = op(i)[2];
    return PLUMBING.has(o) || (o === 'broadcast' && D.operands[i].length === 1 && op(D.operands[i][0])[2] === 'constant'); };
  const runs = (i) => HANDS_ON.has(op(i)[2]) || op(i)[2] === 'while' || op(i)[2] === 'conditional';

  // A context is a computation in its place: `at` is the instruction that calls it, in the context `up`.
  const whole = { comp: 0, at: -1, up: null, which: 0 };
  const argument = (ctx, number) => { const o = op(ctx.at)[2], of = D.operands[ctx.at];
    return o === 'while' ? of[0] : o === 'conditional' ? of[1 + ctx.which] : HANDS_ON.has(o) ? of[number] : undefined; };
  // Adds to `out` the pairs of context and instruction that compute element `path` of value i.
  function sources(ctx, i, path, out, depth = 0) {
    while (depth++ < 400) {
      if (!folded(i)) { out.push([ctx, i]); return; }
      const o = op(i)[2], of = D.operands[i];
      if (o === 'tuple') {
        if (!path.length) { for (const part of of) sources(ctx, part, path, out, depth); return; }
        i = of[path[0]]; path = path.slice(1);
      } else if (o === 'get-tuple-element') { path = [D.number[i], ...path]; i = of[0];
      } else if (o === 'parameter') {
        const from = ctx.up ? argument(ctx, D.number[i]) : undefined;
        if (from === undefined) return;
        i = from; ctx = ctx.up;
      } else { if (o.startsWith('copy-')) path = []; i = of[0]; }
      if (i === undefined) return;
    }
  }
  function inputs(ctx, i) {
    const out = [];
    for (const from of D.operands[i]) sources(ctx, from, [], out);
    if (op(i)[2] === 'parameter' && ctx.up) { const from = argument(ctx, D.number[i]);
      if (from !== undefined) sources(ctx.up, from, [], out); }
    return out;
  }

  // What feeds what in the whole module, each computation in the first place that calls it.
  let links = null;
  const contexts = new Map([[0, whole]]);
  function context(comp) {
    const chain = [];
    while (!contexts.has(comp) && caller[comp] >= 0 && !chain.includes(comp)) { chain.push(comp); comp = home[caller[comp]]; }
    for (const c of chain.reverse()) contexts.set(c, { comp: c, at: caller[c], which: calls(caller[c]).indexOf(c),
      up: contexts.get(home[caller[c]]) || null });
    return contexts.get(chain.length ? chain[chain.length - 1] : comp) || { comp, at: -1, up: null, which: 0 };
  }
  function graph() {
    if (links) return links;
    const before = Array.from({ length: N }, () => []), after = Array.from({ length: N }, () => []);
    const join = (a, b) => { if (a !== b && !before[b].includes(a)) { before[b].push(a); after[a].push(b); } };
    for (let i = 0; i < N; i++) {
      if (folded(i)) continue;
      for (const [, from] of inputs(context(home[i]), i)) join(from, i);
      if (runs(i)) for (const c of calls(i)) { const out = [];
        if (D.comps[c].r >= 0) sources(context(c), D.comps[c].r, [], out);
        for (const [, from] of out) join(from, i); }
    }
    return links = { before, after };
  }
  function reach(from, next, most) {
    const far = new Map([[from, 0]]), queue = [from];
    for (const i of queue) { if (far.get(i) >= most) continue;
      for (const j of next(i)) if (!far.has(j)) { far.set(j, far.get(i) + 1); queue.push(j); } }
    return far;
  }
  const near = (i, steps) => { const g = graph();
    return [...reach(i, (j) => g.before[j].concat(g.after[j]), steps).keys()]; };
  // Every instruction on a way from a to b, or the shortest way alone where those are too many.
  function between(a, b, most = 300) {
    const g = graph();
    for (const [from, to] of [[a, b], [b, a]]) {
      const down = reach(from, (j) => g.after[j], Infinity);
      if (!down.has(to)) continue;
      const up = reach(to, (j) => g.before[j], Infinity), all = [...down.keys()].filter((j) => up.has(j));
      if (all.length <= most) return { ids: all, all: true };
      const way = [to];
      while (way[0] !== from) way.unshift(g.before[way[0]].find((j) => down.get(j) === down.get(way[0]) - 1));
      return { ids: way, all: false };
    }
    return { ids: [], all: true };
  }

  // Names in an op_name, without the options of its operation: a "/" in brackets parts nothing.
  function segments(text) {
    const found = []; let depth = 0, start = 0;
    for (let k = 0; k < text.length; k++) { const c = text[k];
      if (c === '[' || c === '(') depth++; else if (c === ']' || c === ')') depth--;
      else if (c === '/' && depth <= 0) { found.push(text.slice(start, k)); start = k + 1; } }
    return found;
  }
  const tail = (i) => { const text = S[D.opname[i]], parts = segments(text);
    return text.slice(parts.reduce((n, p) => n + p.length + 1, 0)).replace(/\[ .*/, ''); };
  const group = (label, up) => ({ label, up, groups: new Map(), leaves: [], size: 0 });
  const trees = new Map();
  function tree(comp) {
    if (trees.has(comp)) return trees.get(comp);
    const { s, c } = D.comps[comp], root = group('', null), at = new Map();
    const place = (i) => { const name = S[D.opname[i]]; if (!name) return null; let g = root;
      for (const part of segments(name)) { if (!g.groups.has(part)) g.groups.set(part, group(part, g)); g = g.groups.get(part); }
      return g; };
    for (let i = s; i < s + c; i++) { const g = place(i); if (g) at.set(i, g); }
    // What says no op_name stands with the first that uses it, or with what it uses.
    for (let i = s + c - 1; i >= s; i--) if (at.has(i)) for (const o of D.operands[i]) if (!at.has(o)) at.set(o, at.get(i));
    for (let i = s; i < s + c; i++) { if (folded(i)) continue;
      if (!at.has(i)) at.set(i, D.operands[i].map((o) => at.get(o)).find(Boolean) || root);
      at.get(i).leaves.push(i); }
    const made = tidy(root); trees.set(comp, made); return made;
  }
  // Groups of few go up, a group in a group alone becomes one, long lists become parts of a readable length.
  function tidy(g) {
    const kept = new Map();
    for (const [name, kid] of g.groups) { const k = tidy(kid);
      if (k.size < FEWEST_LEAVES) g.leaves.push(...all(k)); else kept.set(name, k); }
    g.groups = kept;
    if (kept.size === 1 && !g.leaves.length) { const [only] = kept.values();
      only.label = g.label ? g.label + '/' + only.label : only.label; only.up = g.up; return only; }
    g.leaves.sort((a, b) => a - b);
    if (g.leaves.length > MOST_LEAVES) { const leaves = g.leaves; g.leaves = [];
      split(g, leaves); }
    for (const k of g.groups.values()) k.up = g;
    g.size = g.leaves.length; for (const k of g.groups.values()) g.size += k.size;
    return g;
  }
  function split(g, leaves) {
    const parts = Math.min(40, Math.ceil(leaves.length / 80)), each = Math.ceil(leaves.length / parts);
    for (let n = 0; n < leaves.length; n += each) { const some = leaves.slice(n, n + each);
      const k = group('#' + (n + 1) + '\u2013' + (n + some.length), g);
      if (some.length > MOST_LEAVES) split(k, some); else k.leaves = some;
      k.size = some.length; g.groups.set(k.label, k); }
  }
  const all = (g) => { const found = [...g.leaves], rest = [...g.groups.values()];
    for (const k of rest) { for (const i of k.leaves) found.push(i); rest.push(...k.groups.values()); } return found; };

  // What a computation and all it calls take in one run; one that several call counts for each in equal parts.
  const sums = new Map();
  function inclusive(kind, i, depth = 0) {
    const own = D.overlays[kind], max = kind === 'size', key = kind;
    if (!sums.has(key)) sums.set(key, new Map());
    const memo = sums.get(key);
    if (memo.has(i)) return memo.get(i);
    let v = own[i] || 0;
    // What is marked inside a fusion or a reducer marks all that is around it.
    if (!max && depth < 60 && (D.marks[kind] || runs(i) && op(i)[2] !== 'fusion')) for (const c of calls(i)) {
      const { s, c: count } = D.comps[c];
      for (let j = s; j < s + count; j++) v += inclusive(kind, j, depth + 1) / callers[c]; }
    memo.set(i, v); return v;
  }
  const total = (kind, ids) => { let v = 0;
    for (const i of ids) { const w = inclusive(kind, i); v = kind === 'size' ? Math.max(v, w) : v + w; } return v; };

  // The word and the note that an overlay has for an instruction.
  const mark = (kind, i) => D.marks[kind] ? D.marks[kind].of[i] : undefined;

  let hay = null;
  const FIELDS = { name: (i) => D.name[i], opcode: (i) => op(i)[0] + ' ' + op(i)[2], shape: (i) => S[D.shape[i]],
    op_name: (i) => S[D.opname[i]], source: (i) => S[D.source[i]], computation: (i) => D.comps[home[i]].name };
  function find(text) {
    if (!hay) hay = Array.from({ length: N }, (_, i) => Object.values(FIELDS).map((f) => f(i)).join('\n').toLowerCase());
    const tests = text.toLowerCase().split(/\s+/).filter(Boolean).map((word) => {
      const at = word.indexOf(':'), f = Object.hasOwn(FIELDS, word.slice(0, Math.max(at, 0))) ? FIELDS[word.slice(0, at)] : null, rest = word.slice(at + 1);
      return f ? (i) => f(i).toLowerCase().includes(rest) : (i) => hay[i].includes(word); });
    const found = [];
    if (tests.length) for (let i = 0; i < N; i++) if (tests.every((t) => t(i))) found.push(i);
    return found;
  }
  for (let i = 0; i < N; i++) for (const o of D.operands[i]) (users[o] = users[o] || []).push(i);
  const byName = new Map(D.name.map((name, i) => [name, i]));
  return { N, S, op, home, users, calls, caller, folded, runs, whole, inputs, context, near, between, tree, all, total,
    mark, inclusive, find, byName, tail, fold: (on) => { plumbing = !on; links = null; trees.clear(); } };
})();

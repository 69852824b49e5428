// What is visible, and where: boxes in boxes, each laid out in layers once what is in it has its size.
const L = (() => {
  const W = 176, H = 36, GX = 16, GY = 30, PAD = 14, HEAD = 24, WIDEST = 2600;

  // `open` says which keys are not as they are at first, which is shut but for bodies of loops; the items of `only`, where there is one, stand alone without groups.
  function visible(open, only) {
    const root = { key: '', kids: [], parent: null, depth: 0, open: true, label: '' }, items = [], contexts = new Set();
    const add = (parent, item) => { item.parent = parent; item.depth = parent.depth + 1; item.n = items.length;
      item.kids = item.kids || []; parent.kids.push(item); items.push(item); return item; };
    const enter = (ctx, parent) => { ctx.rep = new Map(); contexts.add(ctx); fill(parent, ctx, M.tree(ctx.comp), parent.key); };
    function leaf(parent, ctx, i, key) {
      const item = add(parent, { key: key + '/' + i, id: i, ctx, ids: [i], canOpen: M.calls(i).length > 0, rank: i });
      ctx.rep.set(i, item);
      if (!item.canOpen || !open.has(item.key)) return;
      item.open = true;
      const called = M.calls(i);
      called.forEach((comp, which) => {
        const inner = { comp, at: i, up: ctx, which }, name = D.comps[comp].name;
        if (called.length === 1) { enter(inner, item); return; }
        const part = add(item, { key: item.key + '/' + which, label: name, canOpen: true, ctx, inner, comp,
          ids: Array.from({ length: D.comps[comp].c }, (_, k) => D.comps[comp].s + k), rank: -which });
        // Of a loop the body is what one wants to see.
        const shown = M.op(i)[2] !== 'while' || name === D.body[i];
        if (open.has(part.key) === shown) return;
        part.open = true; enter(inner, part);
      });
    }
    function fill(parent, ctx, g, key) {
      for (const k of g.groups.values()) {
        const ids = M.all(k), item = add(parent, { key: key + '/g:' + k.label, label: k.label, group: k, ctx, ids,
          canOpen: true, rank: ids.reduce((a, b) => a + b, 0) / ids.length });
        if (open.has(item.key)) { item.open = true; fill(item, ctx, k, item.key); }
        else for (const i of ids) ctx.rep.set(i, item);
      }
      for (const i of g.leaves) leaf(parent, ctx, i, key);
    }
    if (only) {
      for (const i of only) add(root, { key: '/only/' + i, id: i, ctx: M.context(M.home[i]), ids: [i], rank: i, canOpen: false });
      return { root, items, edges: joinOnly(root, items) };
    }
    enter({ ...M.whole }, root);
    return { root, items, edges: join(root, items, contexts) };
  }
  function edge(root, found, a, b) {
    if (!a || !b || a === b) return;
    const key = a.n * 4294967 + b.n, old = found.get(key);
    if (old) { old.count++; return; }
    found.set(key, { a, b, count: 1 });
    let x = a, y = b;
    while (x.depth > y.depth) x = x.parent;
    while (y.depth > x.depth) y = y.parent;
    if (x === y) return;
    while (x.parent !== y.parent) { x = x.parent; y = y.parent; }
    (x.after = x.after || new Set()).add(y);
  }
  function join(root, items, contexts) {
    const found = new Map();
    for (const ctx of contexts) for (const [i, item] of ctx.rep) {
      // What an open box takes in goes to what is in it.
      if (item.open && M.runs(i)) continue;
      for (const [from, j] of M.inputs(ctx, i)) edge(root, found, from.rep && from.rep.get(j), item);
    }
    return [...found.values()];
  }
  function joinOnly(root, items) {
    const found = new Map(), at = new Map(items.map((item) => [item.id, item]));
    for (const item of items) {
      for (const [, j] of M.inputs(item.ctx, item.id)) edge(root, found, at.get(j), item);
      // A loop takes in what its body ends with.
      if (M.runs(item.id)) for (const c of M.calls(item.id)) for (const j of M.near(item.id, 1)) {
        const inner = at.get(j); if (inner && M.home[j] === c) edge(root, found, inner, item); } }
    return [...found.values()];
  }

  function size(item) {
    if (!item.open || !item.kids.length) { item.w = W; item.h = H; return; }
    for (const kid of item.kids) size(kid);
    const [w, h] = layers(item.kids);
    item.w = Math.max(W, w + 2 * PAD); item.h = h + HEAD + PAD;
    for (const kid of item.kids) { kid.dx += PAD + (item.w - 2 * PAD - w) / 2; kid.dy += HEAD; }
  }
  // After what they use, otherwise in the order of the text; a circle is cut where that leads back into it.
  function order(kids) {
    kids.sort((a, b) => a.rank - b.rank);
    for (const kid of kids) { kid.order = -1; kid.layer = 0; kid.up = []; kid.down = []; kid.uses = []; kid.next = 0; }
    for (const kid of kids) for (const b of kid.after || []) b.uses.push(kid);
    let count = 0;
    for (const first of kids) {
      if (first.next) continue;
      const stack = [first]; first.next = 1;
      while (stack.length) { const kid = stack[stack.length - 1], use = kid.uses[kid.next - 1];
        if (use) { kid.next++; if (!use.next) { use.next = 1; stack.push(use); } }
        else { kid.order = count++; stack.pop(); } }
    }
    kids.sort((a, b) => a.order - b.order);
  }
  function layers(kids) {
    order(kids);
    // Groups may feed each other; edges against the order make no layers.
    for (const a of kids) for (const b of a.after || []) if (b.order > a.order) { a.down.push(b); b.up.push(a); }
    for (const a of kids) for (const b of a.down) b.layer = Math.max(b.layer, a.layer + 1);
    for (let n = kids.length - 1; n >= 0; n--) { const kid = kids[n];
      if (!kid.up.length && kid.down.length) kid.layer = Math.max(0, Math.min(...kid.down.map((b) => b.layer)) - 1); }
    const rows = [];
    for (const kid of kids) (rows[kid.layer] = rows[kid.layer] || []).push(kid);
    const lone = kids.filter((kid) => !kid.up.length && !kid.down.length);
    if (lone.length > 12) gather(rows, lone);
    return positions(rows.filter((row) => row && row.length));
  }
  // What has no neighbours stands in a block of its own, above the rest.
  function gather(rows, lone) {
    const set = new Set(lone), wide = Math.max(8, Math.ceil(Math.sqrt(lone.length * 0.4)));
    for (let n = 0; n < rows.length; n++) if (rows[n]) rows[n] = rows[n].filter((kid) => !set.has(kid));
    const block = [];
    for (let n = 0; n < lone.length; n += wide) block.push(lone.slice(n, n + wide));
    rows.unshift(...block);
  }
  function positions(rows) {
    rows = rows.flatMap((row) => narrow(row));
    const middle = (kid) => kid.dx + kid.w / 2;
    for (const row of rows) { let x = 0; for (const kid of row) { kid.dx = x; x += kid.w + GX; } const all = x - GX;
      for (const kid of row) kid.dx -= all / 2; }
    const sweeps = rows.length > 3000 ? 2 : 6;
    for (let sweep = 0; sweep < sweeps; sweep++) {
      const down = sweep % 2 === 0;
      for (const row of down ? rows : [...rows].reverse()) {
        for (const kid of row) { const near = down ? kid.up : kid.down;
          kid.want = near.length ? near.reduce((sum, o) => sum + middle(o), 0) / near.length - kid.w / 2 : kid.dx; }
        // The order is what the neighbours want until the last sweeps, which only move.
        if (sweep < sweeps - 2) row.sort((a, b) => a.want - b.want);
        settle(row);
      }
    }
    let left = Infinity, right = -Infinity, y = 0;
    for (const row of rows) { const high = Math.max(...row.map((kid) => kid.h));
      for (const kid of row) { kid.dy = y + (high - kid.h) / 2; left = Math.min(left, kid.dx); right = Math.max(right, kid.dx + kid.w); }
      y += high + GY; }
    for (const row of rows) for (const kid of row) kid.dx -= left;
    return [right - left, y - GY];
  }
  function narrow(row) {
    const most = Math.max(WIDEST, Math.sqrt(row.length) * W * 3), made = [[]]; let x = 0;
    for (const kid of row) { if (x && x + kid.w > most) { made.push([]); x = 0; } made[made.length - 1].push(kid); x += kid.w + GX; }
    return made;
  }
  // As near as possible to where each wants to be, in order and apart: blocks that touch move as one.
  function settle(row) {
    const blocks = [];
    for (const kid of row) {
      blocks.push({ kids: [kid], at: kid.want, w: kid.w + GX });
      while (blocks.length > 1) { const b = blocks[blocks.length - 1], a = blocks[blocks.length - 2];
        if (a.at + a.w <= b.at) break;
        blocks.pop();
        const n = a.kids.length, m = b.kids.length;
        a.at = (a.at * n + (b.at - a.w) * m) / (n + m); a.w += b.w; for (const k of b.kids) a.kids.push(k); }
    }
    for (const block of blocks) { let x = block.at; for (const kid of block.kids) { kid.dx = x; x += kid.w + GX; } }
  }
  function settleAll(item, x, y) { for (const kid of item.kids) { kid.x = x + kid.dx; kid.y = y + kid.dy;
    if (kid.open) settleAll(kid, kid.x, kid.y); } }

  function lay(open, only) {
    const made = visible(open, only);
    size(made.root); settleAll(made.root, 0, 0);
    return made;
  }
  return { lay };
})();

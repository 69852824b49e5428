//! Which values a module has, where they are and what must share memory, by opcode.

use hlorun::analysis::dataflow::{HloAliasAnalysis, HloDataflowAnalysis, PositionId, ValueIndex};
use hlorun::module::HloModule;

use crate::bundle::module;

struct Values {
    module: HloModule,
    dataflow: HloDataflowAnalysis,
    alias: HloAliasAnalysis,
}

impl Values {
    fn of(body: &str) -> Values {
        let module = module(format!("HloModule m\n\n{body}").as_bytes(), body);
        let dataflow = HloDataflowAnalysis::run(&module).expect("values");
        let alias = HloAliasAnalysis::run(&module, &dataflow);
        Values {
            module,
            dataflow,
            alias,
        }
    }

    fn position(&self, position: PositionId) -> String {
        let id = self.dataflow.positions.instruction(position);
        let index = self.dataflow.positions.index(position);
        let index = if index.is_root() {
            String::new()
        } else {
            index.to_string()
        };
        format!("{}{index}", self.module.instruction(id).name())
    }

    fn name(&self, value: ValueIndex) -> String {
        self.position(self.dataflow.value(value).defining_position)
    }

    /// `value: positions | uses` of the values that `instruction` defines.
    fn defined_by(&self, instruction: &str) -> Vec<String> {
        let id = self.module.find_instruction(instruction).expect("a name");
        let mut lines = Vec::new();
        for value in self.dataflow.indices() {
            if self.dataflow.defining_instruction(value) != id {
                continue;
            }
            let positions = self.dataflow.positions_of(value)[1..].iter();
            let mut positions: Vec<String> = positions.map(|&p| self.position(p)).collect();
            positions.sort();
            let uses = self.dataflow.uses_of(value).iter();
            let mut uses: Vec<String> = uses
                .map(|used| {
                    let user = self.module.instruction(used.instruction).name();
                    format!("{user}#{}", used.operand)
                })
                .collect();
            uses.sort();
            let phi = if self.dataflow.value(value).is_phi {
                " phi"
            } else {
                ""
            };
            lines.push(format!(
                "{}{phi}: {} | {}",
                self.name(value),
                positions.join(" "),
                uses.join(" ")
            ));
        }
        lines
    }

    /// Groups of at least two values that must share memory.
    fn shared(&self) -> Vec<String> {
        let mut groups = Vec::new();
        for buffer in self.alias.buffers().filter(|buffer| buffer.len() > 1) {
            let mut names: Vec<String> = buffer.iter().map(|&value| self.name(value)).collect();
            names.sort();
            groups.push(names.join(" "));
        }
        groups.sort();
        groups
    }
}

const LOOP: &str = "cond {
  cp = (s32[], f32[4], f32[4]) parameter(0)
  ROOT c = pred[] constant(false)
}

body {
  bp = (s32[], f32[4], f32[4]) parameter(0)
  i = s32[] get-tuple-element(bp), index=0
  a = f32[4] get-tuple-element(bp), index=1
  b = f32[4] get-tuple-element(bp), index=2
  n = f32[4] negate(a)
  ROOT bt = (s32[], f32[4], f32[4]) tuple(i, n, b)
}

ENTRY e {
  p = s32[] parameter(0)
  q = f32[4] parameter(1)
  q2 = f32[4] copy(q)
  t = (s32[], f32[4], f32[4]) tuple(p, q2, q)
  ROOT w = (s32[], f32[4], f32[4]) while(t), condition=cond, body=body
}";

#[test]
fn loops_need_phis_only_for_what_they_change() {
    let values = Values::of(LOOP);
    assert_eq!(
        values.defined_by("q"),
        ["q: b bp{2} bt{2} cp{2} t{2} w{2} | bt#2 q2#0 w#0"]
    );
    assert_eq!(
        values.defined_by("bp"),
        ["bp phi:  | a#0 b#0 i#0", "bp{1} phi: a | n#0"]
    );
    assert_eq!(values.defined_by("w"), ["w phi:  | ", "w{1} phi:  | "]);
    assert_eq!(values.shared(), ["bp bt cp t w", "bp{1} cp{1} n q2 w{1}"]);
}

#[test]
fn values_pass_through_branches_and_calls() {
    let values = Values::of(
        "yes {
  yp = (f32[4], f32[4]) parameter(0)
  y0 = f32[4] get-tuple-element(yp), index=0
  y1 = f32[4] get-tuple-element(yp), index=1
  ROOT yt = (f32[4], f32[4]) tuple(y0, y1)
}

no {
  np = (f32[4], f32[4]) parameter(0)
  n0 = f32[4] get-tuple-element(np), index=0
  n1 = f32[4] negate(n0)
  ROOT nt = (f32[4], f32[4]) tuple(n0, n1)
}

twice {
  tp = f32[4] parameter(0)
  ROOT ta = f32[4] add(tp, tp)
}

ENTRY e {
  p = pred[] parameter(0)
  a = f32[4] parameter(1)
  b = f32[4] parameter(2)
  t = (f32[4], f32[4]) tuple(a, b)
  c = (f32[4], f32[4]) conditional(p, t, t), true_computation=yes, false_computation=no
  g = f32[4] get-tuple-element(c), index=1
  ROOT k = f32[4] call(g), to_apply=twice
}",
    );
    assert_eq!(
        values.defined_by("a"),
        ["a: c{0} n0 np{0} nt{0} t{0} y0 yp{0} yt{0} | c#1 c#2 n1#0 nt#0 yt#0"]
    );
    assert_eq!(
        values.defined_by("c"),
        ["c phi:  | g#0", "c{1} phi: g tp | k#0 ta#0 ta#1"]
    );
    assert_eq!(values.defined_by("ta"), ["ta: k | "]);
    assert_eq!(values.defined_by("k"), [""; 0]);
    assert_eq!(values.shared(), ["b c{1} n1", "c nt yt"]);
}

#[test]
fn asynchronous_operations_hand_their_operands_on() {
    let values = Values::of(
        "wrapped {
  wp = f32[8] parameter(0)
  ROOT ws = f32[8] negate(wp)
}

ENTRY e {
  p = f32[8] parameter(0)
  cs = (f32[8], f32[8], u32[]) copy-start(p)
  cd = f32[8] copy-done(cs)
  as = ((f32[8]), f32[8], s32[]) async-start(cd), calls=wrapped
  au = ((f32[8]), f32[8], s32[]) async-update(as)
  ad = f32[8] async-done(au)
  gs = (f32[8], f32[16]) all-gather-start(ad), dimensions={0}, replica_groups={{0,1}}
  gd = f32[16] all-gather-done(gs)
  rs = f32[16] all-reduce-start(gd), replica_groups={}, to_apply=sum
  ROOT rd = f32[16] all-reduce-done(rs)
}

sum {
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT s = f32[] add(x, y)
}",
    );
    assert_eq!(values.defined_by("p"), ["p: cs{1} | cd#0 cs#0"]);
    assert_eq!(
        values.defined_by("cs"),
        [
            "cs:  | cd#0",
            "cs{0}: as{0,0} au{0,0} cd wp | ad#0 as#0 au#0 cd#0 ws#0",
            "cs{2}:  | cd#0"
        ]
    );
    assert_eq!(
        values.defined_by("as"),
        ["as:  | au#0", "as{0}:  | au#0", "as{2}: au{2} | ad#0 au#0"]
    );
    assert_eq!(
        values.defined_by("ws"),
        ["ws: ad as{1} au{1} gs{0} | ad#0 au#0 gd#0 gs#0"]
    );
    assert_eq!(
        values.defined_by("gs"),
        ["gs:  | gd#0", "gs{1}: gd | gd#0 rs#0"]
    );
    assert_eq!(values.defined_by("rs"), ["rs: rd | rd#0"]);
    assert_eq!(values.shared(), ["gs{1} rs"]);
}

#[test]
fn operations_in_place_share_memory() {
    let values = Values::of(
        "fused {
  fp = f32[8] parameter(0)
  fu = f32[2] parameter(1)
  fi = s32[] parameter(2)
  fb = f32[8] bitcast(fp)
  ROOT fd = f32[8] dynamic-update-slice(fb, fu, fi)
}

ENTRY e {
  p = f32[8] parameter(0)
  u = f32[2] parameter(1)
  i = s32[] parameter(2)
  c = f32[8] copy(p)
  f = f32[8] fusion(c, u, i), kind=kLoop, calls=fused
  d = f32[8] dynamic-update-slice(f, u, i)
  k = (f32[8], f32[2]) custom-call(d, u), custom_call_target=\"t\", output_to_operand_aliasing={{0}: (0, {})}
  g = f32[8] get-tuple-element(k), index=0
  ROOT t = (f32[8], s32[]) tuple(g, i)
}",
    );
    assert_eq!(values.shared(), ["c d f k{0}", "fd fp"]);
}

#[test]
fn donated_parameters_share_memory_with_results() {
    let text = "HloModule m, input_output_alias={ {0}: (1, {}, may-alias) }\n
ENTRY e {
  p = f32[8] parameter(0)
  q = f32[8] parameter(1)
  a = f32[8] add(p, q)
  ROOT t = (f32[8], f32[8]) tuple(a, p)
}";
    let module = module(text.as_bytes(), "donated");
    let dataflow = HloDataflowAnalysis::run(&module).expect("values");
    let alias = HloAliasAnalysis::run(&module, &dataflow);
    let at = |name| {
        let id = module.find_instruction(name).expect("a name");
        dataflow
            .value_at(dataflow.positions.root(id))
            .expect("a value")
    };
    assert_eq!(alias.buffer_of(at("a")), alias.buffer_of(at("q")));
    assert_ne!(alias.buffer_of(at("a")), alias.buffer_of(at("p")));
}

#[test]
fn what_cannot_be_followed_is_an_error() {
    let both = "f {
  x = f32[] parameter(0)
  ROOT n = f32[] negate(x)
}

ENTRY e {
  p = f32[] parameter(0)
  c = f32[] call(p), to_apply=f
  ROOT m = f32[] map(c), dimensions={}, to_apply=f
}";
    let module = module(format!("HloModule m\n\n{both}").as_bytes(), both);
    let error = HloDataflowAnalysis::run(&module).expect_err("two contexts");
    assert!(error.to_string().contains("`f`"), "{error}");
}

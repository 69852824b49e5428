//! A module from its buffer assignment alone.
//!
//! Comes in: a dump whose module text is lost. Goes out: the part of the module that the dump's
//! ` from instruction:` lines, positions and schedule show: the entry computation with shapes and
//! operands, and the computations that run per element. What fusions compute inside is not in a
//! dump, so such a module can be checked and planned, not run.

use foldhash::{HashMap, HashSet};

use super::instruction_text::InstructionText;
use super::model::*;
use crate::error::{HloError, Result};
use crate::module::{HloModule, TextRef};
use crate::text;

/// Attributes that name computations, which a dump does not hold.
const CALLS: &[&[u8]] = &[
    b"calls=",
    b"to_apply=",
    b"select=",
    b"scatter=",
    b"called_computations=",
];

/// Opcodes whose computations take part in the schedule.
const CONTROL_FLOW: &[&[u8]] = &[b"while", b"conditional", b"call", b"async-start"];

#[derive(Default)]
struct Node {
    name: String,
    /// `f32[2] add(%a, %b), …`; empty until it is known.
    text: String,
    shape: String,
    operands: Vec<usize>,
    has_users: bool,
    scheduled: bool,
    is_fusion: bool,
}

/// Rebuilds the module of a dump.
///
/// # Errors
/// [`HloError::Unsupported`] when the dump has no used values or schedule, or has loops, branches
/// or calls, whose computations it does not tell apart.
pub fn rebuild_module(dump: &BufferAssignmentDump) -> Result<HloModule> {
    let Some(range) = &dump.live_range else {
        return Err(HloError::unsupported(
            "a dump without a schedule does not show its module",
            "",
        ));
    };
    let mut graph = Graph {
        dump,
        nodes: Vec::new(),
        index: HashMap::default(),
        mentioned: HashMap::default(),
    };
    graph.read_definitions()?;
    graph.derive_forwarders()?;
    let mut entry = Vec::new();
    for scheduled in &range.instruction_sequence {
        let node = graph.known(scheduled.instruction)?;
        graph.nodes[node].scheduled = true;
        entry.push(node);
    }
    let source = graph.write(&entry);
    text::parse(source.into_bytes().into(), &text::ParseOptions::default())
}

struct Graph<'d> {
    dump: &'d BufferAssignmentDump,
    nodes: Vec<Node>,
    index: HashMap<&'d [u8], usize>,
    /// Shapes of operands, where the dialect writes them.
    mentioned: HashMap<&'d [u8], &'d [u8]>,
}

impl<'d> Graph<'d> {
    fn node(&mut self, name: &'d [u8]) -> usize {
        if let Some(&node) = self.index.get(name) {
            return node;
        }
        let node = self.nodes.len();
        self.index.insert(name, node);
        self.nodes.push(Node {
            name: String::from_utf8_lossy(name).into_owned(),
            ..Node::default()
        });
        node
    }

    fn known(&self, name: TextRef) -> Result<usize> {
        let node = self.index.get(self.dump.bytes(name)).copied();
        node.filter(|&node| !self.nodes[node].text.is_empty())
            .ok_or_else(|| {
                let name = self.dump.str(name);
                HloError::unsupported(
                    format!("the dump does not show what `{name}` is"),
                    name.into_owned(),
                )
            })
    }

    /// The instructions that define values.
    fn read_definitions(&mut self) -> Result<()> {
        let dump = self.dump;
        for value in &dump.used_values {
            let name = dump.bytes(value.name.instruction);
            let node = self.node(name);
            if !self.nodes[node].text.is_empty() {
                continue;
            }
            let shown = || String::from_utf8_lossy(name).into_owned();
            let Some(parts) = InstructionText::split(dump.bytes(value.from_instruction)) else {
                return Err(HloError::unsupported(
                    format!("the text of `{}` is no instruction", shown()),
                    shown(),
                ));
            };
            if CONTROL_FLOW.contains(&parts.opcode) {
                return Err(HloError::unsupported(
                    format!(
                        "`{}` runs computations, which the dump does not tell apart",
                        shown()
                    ),
                    shown(),
                ));
            }
            let mut operands = Vec::new();
            let is_leaf = matches!(parts.opcode, b"constant" | b"parameter" | b"iota");
            for operand in parts.operands().into_iter().filter(|_| !is_leaf) {
                operands.push(self.node(operand.name));
                if !operand.shape.is_empty() {
                    self.mentioned.insert(operand.name, operand.shape);
                }
            }
            let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
            let list = match is_leaf {
                true => text(parts.operand_list),
                false => self.operand_list(&operands),
            };
            let mut line = format!("{} {}({list})", text(parts.shape), text(parts.opcode));
            for attribute in parts.attributes() {
                if !CALLS.iter().any(|call| attribute.starts_with(call)) {
                    line.push_str(", ");
                    line.push_str(&text(attribute));
                }
            }
            let node = &mut self.nodes[node];
            node.text = line;
            node.shape = text(parts.shape);
            node.operands = operands;
            node.is_fusion = parts.opcode == b"fusion";
        }
        Ok(())
    }

    fn operand_list(&self, operands: &[usize]) -> String {
        let names: Vec<String> = operands
            .iter()
            .map(|&operand| format!("%{}", self.nodes[operand].name))
            .collect();
        names.join(", ")
    }

    /// Instructions that pass values on define none: they are seen in positions and uses only.
    fn derive_forwarders(&mut self) -> Result<()> {
        let dump = self.dump;
        let shapes: HashMap<u32, TextRef> =
            dump.assigned.iter().map(|a| (a.name.id, a.shape)).collect();
        // Where each forwarder gets its operand: the use and the value used.
        let mut sources: HashMap<&[u8], (&HloValueEntry, ValueUse)> = HashMap::default();
        let mut held: HashMap<&[u8], Vec<&HloValueEntry>> = HashMap::default();
        for value in &dump.used_values {
            for used in dump.uses_of(value) {
                let user = dump.bytes(used.instruction);
                if used.operand == 0 {
                    sources.entry(user).or_insert((value, *used));
                }
            }
            for position in dump.positions_of(value) {
                let name = dump.bytes(position.instruction);
                held.entry(name).or_default().push(value);
            }
        }
        let mut names: Vec<&[u8]> = held.keys().copied().collect();
        names.sort_unstable();
        for name in names {
            let node = self.node(name);
            if !self.nodes[node].text.is_empty() {
                continue;
            }
            let Some((value, used)) = sources.get(name) else {
                continue;
            };
            let operand = dump.positions_of(value).iter().find(|position| {
                dump.bytes(position.index) == dump.bytes(used.index)
                    && dump.bytes(position.instruction) != name
            });
            let Some(operand) = operand else { continue };
            let source = dump.bytes(operand.instruction);
            let from_tuple = used.index.len > 0;
            let mut element = None;
            let mut shape = self.mentioned.get(name).copied();
            for value in &held[name] {
                let inside = dump
                    .positions_of(value)
                    .iter()
                    .find(|p| dump.bytes(p.instruction) == source && p.index.len > 2);
                if from_tuple && let Some(inside) = inside {
                    element = dump.shape_index(inside.index).0.first().copied();
                }
                let whole = dump.positions_of(value).iter().any(|p| {
                    dump.bytes(p.instruction) == name && matches!(dump.bytes(p.index), b"" | b"{}")
                });
                if whole && shape.is_none() {
                    shape = shapes.get(&value.name.id).map(|&text| dump.bytes(text));
                }
            }
            let Some(shape) = shape else { continue };
            let shape = String::from_utf8_lossy(shape).into_owned();
            let source = self.node(source);
            let operands = vec![source];
            let list = self.operand_list(&operands);
            let text = match (from_tuple, element) {
                (true, Some(element)) => {
                    format!("{shape} get-tuple-element({list}), index={element}")
                }
                (true, None) => continue,
                (false, _) => format!("{shape} bitcast({list})"),
            };
            let node = &mut self.nodes[node];
            node.text = text;
            node.shape = shape;
            node.operands = operands;
        }
        Ok(())
    }

    /// The instruction whose result the entry returns.
    fn entry_root(&self, entry: &[usize]) -> Option<usize> {
        let dump = self.dump;
        let output = dump.allocations.iter().find(|a| a.output_shape.is_some())?;
        let shape = dump.str(output.output_shape?);
        let ids: HashSet<u32> = dump.values_of(output).iter().map(|v| v.name.id).collect();
        let mut candidates: HashSet<usize> = HashSet::default();
        for value in dump.used_values.iter().filter(|v| ids.contains(&v.name.id)) {
            for position in dump.positions_of(value) {
                if matches!(dump.bytes(position.index), b"" | b"{}") {
                    candidates.extend(self.index.get(dump.bytes(position.instruction)));
                }
            }
        }
        let fits = |&&node: &&usize| {
            candidates.contains(&node) && same_without_layout(&self.nodes[node].shape, &shape)
        };
        let mut fitting: Vec<usize> = entry.iter().filter(fits).copied().collect();
        fitting.sort_by_key(|&node| self.nodes[node].has_users);
        let unused = |node: &&usize| !self.nodes[**node].has_users;
        fitting
            .iter()
            .rev()
            .find(unused)
            .or(fitting.last())
            .copied()
    }

    fn write(&mut self, entry: &[usize]) -> String {
        for node in 0..self.nodes.len() {
            for operand in self.nodes[node].operands.clone() {
                self.nodes[operand].has_users = true;
            }
        }
        let groups = self.groups();
        let mut out = String::from("HloModule rebuilt, is_scheduled=true\n\n");
        for (number, group) in groups.iter().enumerate() {
            out.push_str(&format!("%per_element.{number} {{\n"));
            let root = group.iter().rev().find(|&&n| !self.nodes[n].has_users);
            self.write_nodes(group, root.copied(), None, &mut out);
        }
        let root = self.entry_root(entry);
        // Any instruction can hold the calls; which one it was is not in the dump.
        let caller = entry.iter().copied().find(|&n| !self.nodes[n].is_fusion);
        let calls: Vec<String> = (0..groups.len())
            .map(|number| format!("%per_element.{number}"))
            .collect();
        let calls = caller
            .filter(|_| !calls.is_empty())
            .map(|caller| (caller, calls.join(", ")));
        out.push_str("ENTRY %entry {\n");
        self.write_nodes(entry, root, calls, &mut out);
        out
    }

    fn write_nodes(
        &self,
        nodes: &[usize],
        root: Option<usize>,
        calls: Option<(usize, String)>,
        out: &mut String,
    ) {
        for &node in nodes {
            let prefix = if root == Some(node) { "ROOT " } else { "" };
            out.push_str(&format!(
                "  {prefix}%{} = {}",
                self.nodes[node].name, self.nodes[node].text
            ));
            if let Some((_, calls)) = calls.as_ref().filter(|(caller, _)| *caller == node) {
                out.push_str(&format!(", called_computations={{{calls}}}"));
            }
            out.push('\n');
        }
        out.push_str("}\n\n");
    }

    /// Instructions outside the schedule that belong together, operands first.
    fn groups(&self) -> Vec<Vec<usize>> {
        let mut leader: Vec<usize> = (0..self.nodes.len()).collect();
        fn find(leader: &mut [usize], mut at: usize) -> usize {
            while leader[at] != at {
                leader[at] = leader[leader[at]];
                at = leader[at];
            }
            at
        }
        for node in 0..self.nodes.len() {
            for &operand in &self.nodes[node].operands {
                let (a, b) = (find(&mut leader, node), find(&mut leader, operand));
                leader[a.max(b)] = a.min(b);
            }
        }
        let mut groups: Vec<Vec<usize>> = Vec::new();
        let mut group_of: HashMap<usize, usize> = HashMap::default();
        let mut seen = vec![false; self.nodes.len()];
        for start in 0..self.nodes.len() {
            if self.nodes[start].scheduled || self.nodes[start].text.is_empty() {
                continue;
            }
            let group = *group_of.entry(find(&mut leader, start)).or_insert_with(|| {
                groups.push(Vec::new());
                groups.len() - 1
            });
            if seen[start] {
                continue;
            }
            seen[start] = true;
            let mut stack = vec![(start, 0)];
            while let Some((node, next)) = stack.last_mut() {
                match self.nodes[*node].operands.get(*next) {
                    Some(&operand) => {
                        *next += 1;
                        if !seen[operand] {
                            seen[operand] = true;
                            stack.push((operand, 0));
                        }
                    }
                    None => {
                        groups[group].push(*node);
                        stack.pop();
                    }
                }
            }
        }
        groups
    }
}

/// Compares shape texts without what stands in braces behind dimensions.
fn same_without_layout(with: &str, without: &str) -> bool {
    let mut depth = 0usize;
    let stripped = with.chars().filter(|&c| {
        match c {
            '{' => depth += 1,
            '}' => {
                depth = depth.saturating_sub(1);
                return false;
            }
            _ => {}
        }
        depth == 0
    });
    stripped.eq(without.chars())
}

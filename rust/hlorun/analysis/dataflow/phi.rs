//! Values that meet: which phis are needed and which are one value in disguise.

use std::collections::VecDeque;

use foldhash::{HashMap, HashSet};
use smallvec::SmallVec;

/// Steps after which simplification stops; what is left is correct, only not minimal.
const WORK_LIMIT: usize = 1 << 26;

/// Nodes by their places in the graph; most phis have two operands.
type Places = SmallVec<[u32; 4]>;

#[derive(Default)]
struct Node {
    value: u32,
    operands: Places,
    users: Places,
    is_phi: bool,
    is_dead: bool,
}

/// Phis and what flows into them, by value number.
#[derive(Default)]
pub(crate) struct PhiGraph {
    nodes: Vec<Node>,
    node_of: HashMap<u32, u32>,
}

impl PhiGraph {
    fn node(&mut self, value: u32) -> u32 {
        let next = self.nodes.len() as u32;
        *self.node_of.entry(value).or_insert_with(|| {
            self.nodes.push(Node {
                value,
                ..Node::default()
            });
            next
        })
    }

    /// Says what flows into the phi `value`, replacing what was said before.
    pub fn register(&mut self, value: u32, inputs: &[u32]) {
        let node = self.node(value);
        let operands: Places = inputs.iter().map(|&input| self.node(input)).collect();
        let node = &mut self.nodes[node as usize];
        node.is_phi = true;
        node.operands = operands;
    }

    /// Whether `value` is known with exactly the set of `inputs`.
    pub fn inputs_equal(&self, value: u32, inputs: &[u32]) -> bool {
        let Some(&node) = self.node_of.get(&value) else {
            return false;
        };
        let known: HashSet<u32> = self.nodes[node as usize]
            .operands
            .iter()
            .map(|&operand| self.nodes[operand as usize].value)
            .collect();
        let wanted: HashSet<u32> = inputs.iter().copied().collect();
        known == wanted
    }

    /// The value that stands for `value` after [`PhiGraph::optimize`].
    pub fn replacement(&self, value: u32) -> u32 {
        let Some(&node) = self.node_of.get(&value) else {
            return value;
        };
        self.nodes[node as usize].value
    }

    /// Replaces phis into which only one other value flows, directly or through other phis.
    pub fn optimize(&mut self) {
        for node in 0..self.nodes.len() {
            for operand in self.nodes[node].operands.clone() {
                self.nodes[operand as usize].users.push(node as u32);
            }
        }
        // Where each replaced node went; the same for the value numbers at the end.
        let mut forward: Vec<u32> = (0..self.nodes.len() as u32).collect();
        let mut work = 0usize;
        let mut changed = true;
        while changed && work < WORK_LIMIT {
            changed = false;
            let mut checked: HashSet<u32> = HashSet::default();
            for at in 0..self.nodes.len() as u32 {
                let node = &mut self.nodes[at as usize];
                if !node.is_phi || node.is_dead || work >= WORK_LIMIT {
                    continue;
                }
                node.operands.retain(|operand| *operand != at);
                node.users.retain(|user| *user != at);
                work += 1 + node.operands.len();
                let Some(&first) = node.operands.first() else {
                    continue;
                };
                if node.operands.iter().all(|&operand| operand == first) {
                    self.replace(at, first, &mut forward);
                    changed = true;
                    continue;
                }
                if checked.contains(&at) {
                    continue;
                }
                if let Some((source, members)) = self.closure(at, &mut checked, &mut work) {
                    for member in members {
                        if self.nodes[member as usize].is_phi {
                            self.replace(member, source, &mut forward);
                            changed = true;
                        }
                    }
                }
            }
        }
        for node in self.node_of.values_mut() {
            *node = follow(&forward, *node);
        }
    }

    /// Everything that flows into `start`; `None` unless exactly one of it is no phi.
    fn closure(
        &self,
        start: u32,
        checked: &mut HashSet<u32>,
        work: &mut usize,
    ) -> Option<(u32, Vec<u32>)> {
        let mut members: HashSet<u32> = HashSet::default();
        let mut source = None;
        let mut queue = VecDeque::from([start]);
        while let Some(at) = queue.pop_front() {
            if !members.insert(at) {
                continue;
            }
            checked.insert(at);
            let node = &self.nodes[at as usize];
            *work += 1 + node.operands.len();
            queue.extend(&node.operands);
            if !node.is_phi {
                if source.is_some_and(|known| known != at) {
                    return None;
                }
                source = Some(at);
            }
        }
        let mut members: Vec<u32> = members.into_iter().collect();
        members.sort_unstable();
        Some((source?, members))
    }

    fn replace(&mut self, node: u32, by: u32, forward: &mut [u32]) {
        if self.nodes[node as usize].is_dead {
            return;
        }
        let by = follow(forward, by);
        if by == node {
            return;
        }
        let users = std::mem::take(&mut self.nodes[node as usize].users);
        for &user in &users {
            for operand in &mut self.nodes[user as usize].operands {
                if *operand == node {
                    *operand = by;
                }
            }
        }
        self.nodes[by as usize].users.extend(users);
        self.nodes[node as usize].is_dead = true;
        forward[node as usize] = by;
    }
}

fn follow(forward: &[u32], mut node: u32) -> u32 {
    while forward[node as usize] != node {
        node = forward[node as usize];
    }
    node
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phi_of_itself_and_one_value_is_that_value() {
        let mut graph = PhiGraph::default();
        graph.register(10, &[1, 10]);
        graph.register(11, &[1, 10]);
        graph.optimize();
        assert_eq!((graph.replacement(10), graph.replacement(11)), (1, 1));
    }

    #[test]
    fn a_ring_of_phis_around_one_value_is_that_value() {
        let mut graph = PhiGraph::default();
        graph.register(10, &[11, 12]);
        graph.register(11, &[12, 1]);
        graph.register(12, &[10, 11]);
        graph.optimize();
        for phi in 10..13 {
            assert_eq!(graph.replacement(phi), 1);
        }
    }

    #[test]
    fn phis_of_two_values_stay() {
        let mut graph = PhiGraph::default();
        graph.register(10, &[1, 2]);
        graph.register(11, &[1, 2]);
        graph.optimize();
        assert_eq!((graph.replacement(10), graph.replacement(11)), (10, 11));
        assert!(graph.inputs_equal(10, &[2, 1, 2]));
    }
}

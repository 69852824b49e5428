//! What somebody may have meant who wrote a name that is not known.

/// The candidate closest to `wanted`, when it is close enough to be a slip of the hand.
#[cold]
pub(crate) fn closest<'a>(
    wanted: &[u8],
    candidates: impl Iterator<Item = &'a [u8]>,
    limit: usize,
) -> Option<String> {
    if wanted.len() < 2 {
        return None;
    }
    let budget = (wanted.len() / 3).clamp(1, 3);
    let mut best: Option<(usize, &[u8])> = None;
    for candidate in candidates.take(limit) {
        let bound = best.map_or(budget, |(distance, _)| distance.saturating_sub(1));
        if candidate == wanted || candidate.len().abs_diff(wanted.len()) > bound {
            continue;
        }
        if let Some(distance) = edit_distance(wanted, candidate, bound) {
            best = Some((distance, candidate));
            if distance <= 1 {
                break;
            }
        }
    }
    best.map(|(_, name)| String::from_utf8_lossy(name).into_owned())
}

/// Edits (insert, remove, replace, swap neighbours) between two short names; `None` beyond `bound`.
fn edit_distance(a: &[u8], b: &[u8], bound: usize) -> Option<usize> {
    if a.len().max(b.len()) > 128 {
        return None;
    }
    let mut before: Vec<usize> = vec![0; b.len() + 1];
    let mut previous: Vec<usize> = (0..=b.len()).collect();
    let mut current: Vec<usize> = vec![0; b.len() + 1];
    for i in 1..=a.len() {
        current[0] = i;
        let mut least = i;
        for j in 1..=b.len() {
            let replace = previous[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut cost = replace.min(previous[j] + 1).min(current[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                cost = cost.min(before[j - 2] + 1);
            }
            current[j] = cost;
            least = least.min(cost);
        }
        if least > bound {
            return None;
        }
        std::mem::swap(&mut before, &mut previous);
        std::mem::swap(&mut previous, &mut current);
    }
    (previous[b.len()] <= bound).then_some(previous[b.len()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggestions_are_near_misses_only() {
        let names: [&[u8]; 3] = [b"parameter.12", b"dot.5", b"multiply"];
        let near = |wanted: &[u8]| closest(wanted, names.iter().copied(), 100);
        assert_eq!(near(b"paramter.12").as_deref(), Some("parameter.12"));
        assert_eq!(near(b"mutliply").as_deref(), Some("multiply"));
        assert_eq!(near(b"something"), None);
    }
}

//! `result_accuracy`: how exact a function's result has to be.

/// What the attribute asks for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ResultAccuracy {
    /// The function that is used without the attribute.
    Default,
    /// The most exact one.
    Highest,
    /// At most this far from the true value.
    Tolerance {
        /// Absolute distance.
        atol: f64,
        /// Relative distance.
        rtol: f64,
        /// Units in the last place.
        ulps: i64,
    },
}

impl ResultAccuracy {
    /// Reads `{mode=highest}`, with the word in any case, or `{tolerance={atol=0,rtol=0.001,ulps=3}}`, with any of the
    /// three once; `None` where the text is neither.
    pub fn read(text: &[u8]) -> Option<ResultAccuracy> {
        let text = std::str::from_utf8(text).ok()?;
        let compact: String = text.chars().filter(|c| !c.is_ascii_whitespace()).collect();
        let body = compact.strip_prefix('{')?.strip_suffix('}')?;
        let (key, value) = body.split_once('=')?;
        match key {
            "mode" if value.eq_ignore_ascii_case("default") => Some(ResultAccuracy::Default),
            "mode" if value.eq_ignore_ascii_case("highest") => Some(ResultAccuracy::Highest),
            "tolerance" => tolerance(value.strip_prefix('{')?.strip_suffix('}')?),
            _ => None,
        }
    }
}

fn tolerance(fields: &str) -> Option<ResultAccuracy> {
    let (mut atol, mut rtol, mut ulps) = (None, None, None);
    for field in fields.split(',') {
        let (key, value) = field.split_once('=')?;
        let is_second = match key {
            "atol" => atol.replace(value.parse().ok()?).is_some(),
            "rtol" => rtol.replace(value.parse().ok()?).is_some(),
            "ulps" => ulps.replace(value.parse().ok()?).is_some(),
            _ => return None,
        };
        if is_second {
            return None;
        }
    }
    Some(ResultAccuracy::Tolerance {
        atol: atol.unwrap_or(0.0),
        rtol: rtol.unwrap_or(0.0),
        ulps: ulps.unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use super::ResultAccuracy as A;

    #[test]
    fn names_are_exact_and_words_are_not() {
        let some = |atol, rtol, ulps| Some(A::Tolerance { atol, rtol, ulps });
        for (text, read) in [
            ("{mode=highest}", Some(A::Highest)),
            ("{ mode = DeFault }", Some(A::Default)),
            (
                "{tolerance={atol=0.1, rtol=1e-3,ulps=3}}",
                some(0.1, 1e-3, 3),
            ),
            ("{tolerance={ulps=2}}", some(0.0, 0.0, 2)),
            ("{tolErance={atol=0.1,rtol=1e-3,ulps=3}}", None),
            ("{tolerance={Atol=0.1}}", None),
            ("{tolerance={atol=1,atol=2}}", None),
            ("{tolerance={ulps=1.5}}", None),
            ("{tolerance={}}", None),
            ("{mode=best}", None),
            ("{MODE=highest}", None),
            ("{}", None),
            ("mode=highest", None),
        ] {
            assert_eq!(A::read(text.as_bytes()), read, "{text}");
        }
    }
}

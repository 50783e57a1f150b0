//! Slurm's lists of hosts, written out: `n[001-003,7],gpu-[0-1]a[2-3]`.
//!
//! A comma outside brackets separates hosts. Brackets hold numbers and ranges of them; where there are several, the last
//! counts fastest. A number has as many digits as the first of its range is written with.

use std::collections::HashSet;

/// More hosts than any cluster has; a longer list is refused before it takes memory.
pub(super) const MAX_HOSTS: usize = 1 << 16;
/// The most characters of a list.
const MAX_CHARS: usize = 1 << 20;
/// The most brackets of one host.
const MAX_BRACKETS: usize = 8;
/// The most characters of a host's name, as DNS has it.
const MAX_NAME: usize = 253;
/// The most digits of a number: as many as the largest has.
const MAX_DIGITS: usize = 20;

/// Why a list is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ListError {
    #[error("it names no host")]
    Empty,
    #[error("a comma has no host on one of its sides")]
    EmptyEntry,
    #[error("it names `{0}` twice, but a host stands in a list once")]
    Twice(String),
    #[error("a bracket is not closed, or closed without being opened")]
    Brackets,
    #[error("`{0}` is no number and no range of numbers, lower first")]
    Range(String),
    #[error("`{0}` cannot stand in the name of a host")]
    Name(String),
    #[error("a host has more than {MAX_BRACKETS} brackets, or more than {MAX_NAME} characters")]
    LongName,
    #[error("it names more than {MAX_HOSTS} hosts, or has more than {MAX_CHARS} characters")]
    TooLong,
}

/// The hosts of a list, in its order.
pub(super) fn expand(list: &str) -> Result<Vec<String>, ListError> {
    if list.len() > MAX_CHARS {
        return Err(ListError::TooLong);
    }
    let mut hosts = Vec::new();
    for entry in entries(list)? {
        let parts = parts(entry)?;
        let n_hosts = parts.iter().try_fold(1_usize, |n, part| n.checked_mul(part.len()).filter(|&n| n <= MAX_HOSTS));
        let n_hosts = n_hosts.filter(|n| hosts.len() + n <= MAX_HOSTS).ok_or(ListError::TooLong)?;
        hosts.extend((0..n_hosts).map(|index| host(&parts, index)));
    }
    let mut seen = HashSet::with_capacity(hosts.len());
    match hosts.iter().find(|&host| !seen.insert(host)) {
        Some(host) => Err(ListError::Twice(shown(host))),
        None => Ok(hosts),
    }
}

/// The entries of a list: what commas outside brackets separate.
fn entries(list: &str) -> Result<Vec<&str>, ListError> {
    let (mut entries, mut start, mut is_inside) = (Vec::new(), 0, false);
    for (at, byte) in list.bytes().enumerate() {
        match byte {
            b'[' if is_inside => return Err(ListError::Brackets),
            b']' if !is_inside => return Err(ListError::Brackets),
            b'[' | b']' => is_inside = !is_inside,
            b',' if !is_inside => {
                entries.push(&list[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    if is_inside {
        return Err(ListError::Brackets);
    }
    entries.push(&list[start..]);
    match entries.iter().filter(|entry| entry.is_empty()).count() {
        0 => Ok(entries),
        n if n == entries.len() => Err(ListError::Empty),
        // Slurm writes none: a part of the list is missing.
        _ => Err(ListError::EmptyEntry),
    }
}

/// A part of an entry: every text that may stand there.
enum Part<'a> {
    Fixed(&'a str),
    Ranges { ranges: Vec<Range>, n_numbers: usize },
}

/// Numbers from one to another, with leading zeros up to a width.
struct Range {
    first: u64,
    last: u64,
    width: usize,
}

impl Part<'_> {
    fn len(&self) -> usize {
        match self {
            Self::Fixed(_) => 1,
            Self::Ranges { n_numbers, .. } => *n_numbers,
        }
    }

    /// Characters of the longest text.
    fn longest(&self) -> usize {
        match self {
            Self::Fixed(text) => text.len(),
            Self::Ranges { .. } => MAX_DIGITS,
        }
    }
}

fn parts(entry: &str) -> Result<Vec<Part<'_>>, ListError> {
    let (mut parts, mut rest) = (Vec::new(), entry);
    while let Some((before, after)) = rest.split_once('[') {
        let (inside, after) = after.split_once(']').ok_or(ListError::Brackets)?;
        parts.push(fixed(before)?);
        parts.push(ranges(inside)?);
        if parts.len() > 2 * MAX_BRACKETS {
            return Err(ListError::LongName);
        }
        rest = after;
    }
    parts.push(fixed(rest)?);
    let longest: usize = parts.iter().map(Part::longest).sum();
    if longest > MAX_NAME { Err(ListError::LongName) } else { Ok(parts) }
}

fn fixed(text: &str) -> Result<Part<'_>, ListError> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if text.chars().all(is_name) { Ok(Part::Fixed(text)) } else { Err(ListError::Name(shown(text))) }
}

fn ranges(inside: &str) -> Result<Part<'static>, ListError> {
    let (mut ranges, mut n_numbers) = (Vec::new(), 0_usize);
    for text in inside.split(',') {
        let range = range(text).ok_or_else(|| ListError::Range(shown(text)))?;
        let n = usize::try_from(range.last - range.first).unwrap_or(MAX_HOSTS).saturating_add(1);
        n_numbers = n_numbers.checked_add(n).filter(|&n| n <= MAX_HOSTS).ok_or(ListError::TooLong)?;
        ranges.push(range);
    }
    Ok(Part::Ranges { ranges, n_numbers })
}

fn range(text: &str) -> Option<Range> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten();
    let range = Range { first: number(first)?, last: number(last)?, width: first.len() };
    (range.first <= range.last && range.width <= MAX_DIGITS).then_some(range)
}

/// The host of an entry with this index, the last part counting fastest.
fn host(parts: &[Part<'_>], mut index: usize) -> String {
    let mut texts: Vec<String> = Vec::with_capacity(parts.len());
    for part in parts.iter().rev() {
        texts.push(match part {
            Part::Fixed(text) => (*text).to_owned(),
            Part::Ranges { ranges, n_numbers } => {
                let place = index % n_numbers;
                index /= n_numbers;
                number(ranges, place as u64)
            }
        });
    }
    texts.reverse();
    texts.concat()
}

fn number(ranges: &[Range], mut place: u64) -> String {
    for range in ranges {
        let n = range.last - range.first + 1;
        if place < n {
            return format!("{:0width$}", range.first + place, width = range.width);
        }
        place -= n;
    }
    String::new()
}

/// Part of a message, however long it is.
fn shown(text: &str) -> String {
    text.chars().take(32).collect::<String>().escape_debug().to_string()
}

#[cfg(test)]
mod tests {
    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::{RngCore, SeedableRng};

    use super::*;

    #[test]
    fn lists_are_written_out_in_their_order() {
        for (list, expected) in [
            ("node1", "node1"),
            ("a,b.c,d-e", "a b.c d-e"),
            ("n[001-003,7],gpu-[0-1]a[2-3]", "n001 n002 n003 n7 gpu-0a2 gpu-0a3 gpu-1a2 gpu-1a3"),
            ("n[8-11]", "n8 n9 n10 n11"),
            ("n[08-11]", "n08 n09 n10 n11"),
            ("n[998-1001]", "n998 n999 n1000 n1001"),
            ("[1-2]", "1 2"),
            ("r[1-2]n[0]", "r1n0 r2n0"),
            ("tux[5]-ib,tux6", "tux5-ib tux6"),
        ] {
            let expected: Vec<&str> = expected.split(' ').collect();
            assert_eq!(expand(list).unwrap(), expected, "{list}");
        }
        assert_eq!(expand("n[1-65536]").unwrap().len(), MAX_HOSTS);
        assert_eq!(expand("n[18446744073709551615]").unwrap(), ["n18446744073709551615"]);
    }

    #[test]
    fn what_is_no_list_is_refused_before_it_takes_memory() {
        let range = |text: &str| ListError::Range(text.to_owned());
        for (list, expected) in [
            ("", ListError::Empty),
            (",", ListError::Empty),
            (",a,b", ListError::EmptyEntry),
            ("a,,b", ListError::EmptyEntry),
            ("n[0-0],n[1-1],", ListError::EmptyEntry),
            ("n[0-1],n[0-1]", ListError::Twice("n0".to_owned())),
            ("c[1,1]", ListError::Twice("c1".to_owned())),
            ("a,n[1-3],n2", ListError::Twice("n2".to_owned())),
            ("n[1", ListError::Brackets),
            ("n1]", ListError::Brackets),
            ("n[[1]]", ListError::Brackets),
            ("n[]", range("")),
            ("n[3-1]", range("3-1")),
            ("n[1-2-3]", range("1-2-3")),
            ("n[a-b]", range("a-b")),
            ("n[+1]", range("+1")),
            ("n[1-]", range("1-")),
            ("n[18446744073709551616]", range("18446744073709551616")),
            ("a b", ListError::Name("a b".to_owned())),
            ("n[1-65537]", ListError::TooLong),
            ("n[0-18446744073709551615]", ListError::TooLong),
            ("n[1-300]m[1-300]", ListError::TooLong),
            ("a,n[1-65536]", ListError::TooLong),
        ] {
            assert_eq!(expand(list), Err(expected), "{list}");
        }
        assert_eq!(expand(&"[1]".repeat(9)), Err(ListError::LongName));
        assert_eq!(expand(&format!("{}[1-9]", "a".repeat(MAX_NAME))), Err(ListError::LongName));
        assert_eq!(
            expand(&format!("n[{}1]", "0".repeat(MAX_DIGITS))),
            Err(range(&format!("{}1", "0".repeat(MAX_DIGITS)))),
            "more than any number has"
        );
        assert_eq!(expand(&"a,".repeat(MAX_CHARS)), Err(ListError::TooLong));
    }

    /// Text of the characters that lists are made of: whatever it is, it is read or refused, and never more is made of it
    /// than may be.
    #[test]
    fn random_text_is_read_or_refused() {
        let mut random = ChaCha8Rng::seed_from_u64(5);
        let (mut n_read, n_texts) = (0, 20_000);
        for _ in 0..n_texts {
            let length = random.next_u32() % 24;
            let text: String =
                (0..length).map(|_| char::from(b"n0123-,[]a9[,-]5"[random.next_u32() as usize % 16])).collect();
            if let Ok(hosts) = expand(&text) {
                n_read += 1;
                assert!(!hosts.is_empty() && hosts.len() <= MAX_HOSTS, "{text}");
                assert!(hosts.iter().all(|host| !host.contains(['[', ']', ','])), "{text}");
                // What is written out stands for itself.
                assert_eq!(expand(&hosts.join(",")).as_deref(), Ok(&hosts[..]), "{text}");
            }
        }
        assert!((100..n_texts).contains(&n_read), "{n_read} of {n_texts} are lists");
    }

    /// Lists made from hosts: what is written out is what they were made from.
    #[test]
    fn random_lists_come_back_whole() {
        let mut random = ChaCha8Rng::seed_from_u64(6);
        for _ in 0..2_000 {
            let (mut list, mut expected) = (Vec::new(), Vec::new());
            for entry in 0..1 + random.next_u32() % 3 {
                let (first, n) = (u64::from(random.next_u32() % 120), u64::from(random.next_u32() % 20));
                let width = 1 + random.next_u32() as usize % 4;
                let (other, last) = (random.next_u32() % 3, first + n);
                list.push(format!("h{entry}-[{first:0width$}-{last}]x[{other},9]"));
                let numbers = (first..=last).map(|number| format!("{number:0width$}"));
                // As wide as the first is written.
                let digits = format!("{first:0width$}").len();
                let numbers = numbers.map(|number| format!("{number:0>digits$}"));
                expected.extend(numbers.flat_map(|n| [format!("h{entry}-{n}x{other}"), format!("h{entry}-{n}x9")]));
            }
            assert_eq!(expand(&list.join(",")), Ok(expected), "{list:?}");
        }
    }
}

//! For tests: whether a text is XML at all.

use std::collections::HashSet;

/// An element or an end of one, or the text between two; attributes by name.
#[derive(Debug, PartialEq)]
pub(super) enum Piece<'a> {
    Start { name: &'a str, attributes: Vec<(&'a str, &'a str)> },
    End(&'a str),
    Text(&'a str),
}

/// The pieces of a document without comments, declarations and character data sections.
///
/// # Panics
/// If it is not well-formed: an element that does not end where it should, an attribute without quotes or that stands
/// twice, something that has to be escaped, two roots.
pub(super) fn pieces(document: &str) -> Vec<Piece<'_>> {
    let (mut rest, mut open, mut pieces, mut n_roots) = (document, Vec::new(), Vec::new(), 0);
    while let Some(at) = rest.find('<') {
        let text = &rest[..at];
        check_text(text);
        assert!(!open.is_empty() || text.trim().is_empty(), "text outside of the root: `{text}`");
        if !text.is_empty() {
            pieces.push(Piece::Text(text));
        }
        let end = at + rest[at..].find('>').expect("a tag ends");
        let tag = &rest[at + 1..end];
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "elements end in turn");
            pieces.push(Piece::End(name));
            continue;
        }
        let (tag, is_empty) = tag.strip_suffix('/').map_or((tag, false), |tag| (tag, true));
        n_roots += usize::from(open.is_empty());
        let (name, attributes) = tag.split_once(char::is_whitespace).unwrap_or((tag, ""));
        assert!(name.starts_with(|c: char| c.is_ascii_alphabetic()), "`{name}` is no name");
        pieces.push(Piece::Start { name, attributes: read_attributes(attributes) });
        if is_empty { pieces.push(Piece::End(name)) } else { open.push(name) }
    }
    assert!(open.is_empty() && rest.trim().is_empty(), "elements that do not end: {open:?}; then `{rest}`");
    assert_eq!(n_roots, 1, "a document has one root");
    pieces
}

fn read_attributes(mut text: &str) -> Vec<(&str, &str)> {
    let (mut attributes, mut seen) = (Vec::new(), HashSet::new());
    while !text.trim_start().is_empty() {
        let (name, rest) = text.trim_start().split_once("=\"").expect("an attribute has a value in quotes");
        let (value, rest) = rest.split_once('"').expect("a value ends");
        check_text(value);
        assert!(seen.insert(name), "attribute {name} stands twice");
        assert!(rest.is_empty() || rest.starts_with(char::is_whitespace), "no blank after {name}");
        attributes.push((name, value));
        text = rest;
    }
    attributes
}

fn check_text(text: &str) {
    assert!(!text.contains(['<', '\u{0}', '\u{1b}']), "`{text}` has to be escaped");
    for entity in text.split('&').skip(1) {
        let (name, _) = entity.split_once(';').expect("an entity ends");
        assert!(["amp", "lt", "gt", "quot", "#39"].contains(&name), "`&{name};`");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_found() {
        assert_eq!(
            pieces("<a b=\"1\" c=\"&lt;\">x<d/></a>\n"),
            [
                Piece::Start { name: "a", attributes: vec![("b", "1"), ("c", "&lt;")] },
                Piece::Text("x"),
                Piece::Start { name: "d", attributes: vec![] },
                Piece::End("d"),
                Piece::End("a"),
            ]
        );
    }

    #[test]
    fn what_is_not_well_formed_is_refused() {
        for document in [
            "<a>",
            "</a>",
            "<a></b>",
            "<a/><b/>",
            "x<a/>",
            "<a b=1/>",
            "<a b=\"1\" b=\"2\"/>",
            "<a>&</a>",
            "<a>&nbsp;</a>",
            "<a b=\"1\"c=\"2\"/>",
            "<a",
        ] {
            assert!(std::panic::catch_unwind(|| pieces(document)).is_err(), "{document}");
        }
    }
}

//! The words and signs of a source text, without its comments.

/// A word, a sign or a literal of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Token<'t> {
    /// Also a number. A raw identifier keeps its `r#`, so that it is no keyword.
    Word(&'t str),
    Sign(char),
    /// The text of a string or of a character is of no interest. But a `|` behind it separates patterns, and begins no closure.
    Literal,
}

/// Splits Rust code into tokens. Comments are left out, and so are lifetimes.
pub(crate) fn tokens(text: &str) -> Vec<Token<'_>> {
    let (mut rest, mut tokens) = (text, Vec::new());
    while let Some(first) = rest.chars().next() {
        let (length, token) = match first {
            _ if rest.starts_with("//") => (rest.find('\n').unwrap_or(rest.len()), None),
            _ if rest.starts_with("/*") => (comment(rest), None),
            '"' => (quoted(rest, '"'), Some(Token::Literal)),
            '\'' => character(rest),
            _ if is_of_word(first) => word(rest),
            _ if first.is_whitespace() => (first.len_utf8(), None),
            sign => (sign.len_utf8(), Some(Token::Sign(sign))),
        };
        tokens.extend(token);
        rest = &rest[length..];
    }
    tokens
}

/// A word, a raw identifier, or a literal with a prefix, and its length.
fn word(text: &str) -> (usize, Option<Token<'_>>) {
    let end_of_word = |text: &str| text.find(|letter| !is_of_word(letter)).unwrap_or(text.len());
    let length = end_of_word(text);
    if let Some(literal) = literal_after(&text[..length], &text[length..]) {
        return (length + literal, Some(Token::Literal));
    }
    let raw = text.strip_prefix("r#").map_or(0, end_of_word);
    let length = if raw > 0 { "r#".len() + raw } else { length };
    (length, Some(Token::Word(&text[..length])))
}

fn is_of_word(letter: char) -> bool {
    letter == '_' || letter.is_alphanumeric()
}

/// The length of a block comment, which may contain others.
fn comment(text: &str) -> usize {
    let (mut place, mut depth) = (2, 1);
    while depth > 0 {
        let Some(next) = text[place..].find(['/', '*']) else { return text.len() };
        place += next;
        match text.get(place..place + 2) {
            Some("/*") => (place, depth) = (place + 2, depth + 1),
            Some("*/") => (place, depth) = (place + 2, depth - 1),
            _ => place += 1,
        }
    }
    place
}

/// The length of a literal, from its first mark to the last.
fn quoted(text: &str, mark: char) -> usize {
    let mut letters = text.char_indices().skip(1);
    while let Some((place, letter)) = letters.next() {
        match letter {
            '\\' => drop(letters.next()),
            _ if letter == mark => return place + mark.len_utf8(),
            _ => {}
        }
    }
    text.len()
}

/// A character literal, or a lifetime, which is no token; and its length.
fn character(text: &str) -> (usize, Option<Token<'_>>) {
    let mut letters = text[1..].chars();
    match (letters.next(), letters.next()) {
        (Some('\\'), _) | (Some(_), Some('\'')) => (quoted(text, '\''), Some(Token::Literal)),
        _ => (1 + text[1..].find(|letter| !is_of_word(letter)).unwrap_or(text.len() - 1), None),
    }
}

/// The length of the literal that begins with a prefix, as `r"..` and `b'..` do.
fn literal_after(prefix: &str, rest: &str) -> Option<usize> {
    let is_raw = matches!(prefix, "r" | "br" | "cr");
    let marks = rest.len() - rest.trim_start_matches('#').len();
    match rest[marks..].chars().next()? {
        '"' if is_raw => {
            let end = format!("\"{}", "#".repeat(marks));
            let start = marks + 1;
            Some(rest[start..].find(&end).map_or(rest.len(), |place| start + place + end.len()))
        }
        '"' if marks == 0 && matches!(prefix, "b" | "c") => Some(quoted(rest, '"')),
        '\'' if marks == 0 && prefix == "b" => Some(quoted(rest, '\'')),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{Token, tokens};

    fn words(text: &str) -> Vec<&str> {
        let words = tokens(text).into_iter().filter_map(|token| match token {
            Token::Word(word) => Some(word),
            Token::Sign(_) | Token::Literal => None,
        });
        words.collect()
    }

    #[test]
    fn literals_and_comments_have_no_words() {
        assert_eq!(words("let a = \"b \\\" c\"; // d\n/* e /* f */ g */ h"), ["let", "a", "h"]);
        assert_eq!(words("r#\"x \" y\"# a b\"z\" 'q' '\\'' 'life c b'\\n'"), ["a", "c"]);
        assert_eq!(words("r#type 'ä' ä"), ["r#type", "ä"]);
        assert_eq!(tokens("'|' | b\"x\" 'a r#\"y\"#"), {
            let literal = Token::Literal;
            [literal, Token::Sign('|'), literal, literal]
        });
        assert_eq!(words("\"open"), [""; 0]);
        assert_eq!(words("/* open"), [""; 0]);
    }
}

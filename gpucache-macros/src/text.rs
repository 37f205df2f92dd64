//! The words and signs of a source text, without its comments and literals.

/// A word or a sign of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Token<'t> {
    Word(&'t str),
    Sign(char),
}

/// Splits Rust code into tokens. Literals and comments are left out, and so are lifetimes.
pub(crate) fn tokens(text: &str) -> Vec<Token<'_>> {
    let (mut rest, mut tokens) = (text, Vec::new());
    while let Some(first) = rest.chars().next() {
        let length = match first {
            _ if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            _ if rest.starts_with("/*") => comment(rest),
            '"' => string(rest),
            '\'' => character(rest),
            _ if is_of_word(first) => {
                let length = rest.find(|letter| !is_of_word(letter)).unwrap_or(rest.len());
                match literal_after(&rest[..length], &rest[length..]) {
                    Some(literal) => length + literal,
                    None => {
                        tokens.push(Token::Word(&rest[..length]));
                        length
                    }
                }
            }
            _ if first.is_whitespace() => first.len_utf8(),
            sign => {
                tokens.push(Token::Sign(sign));
                sign.len_utf8()
            }
        };
        rest = &rest[length..];
    }
    tokens
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

/// The length of a string literal, from its first quotation mark.
fn string(text: &str) -> usize {
    quoted(text, '"')
}

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

/// The length of a character literal, or of a lifetime.
fn character(text: &str) -> usize {
    let mut letters = text[1..].chars();
    match (letters.next(), letters.next()) {
        (Some('\\'), _) | (Some(_), Some('\'')) => quoted(text, '\''),
        _ => 1 + text[1..].find(|letter| !is_of_word(letter)).unwrap_or(text.len() - 1),
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
        '"' if marks == 0 && matches!(prefix, "b" | "c") => Some(string(rest)),
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
            Token::Sign(_) => None,
        });
        words.collect()
    }

    #[test]
    fn literals_and_comments_are_left_out() {
        assert_eq!(words("let a = \"b \\\" c\"; // d\n/* e /* f */ g */ h"), ["let", "a", "h"]);
        assert_eq!(words("r#\"x \" y\"# a b\"z\" 'q' '\\'' 'life c b'\\n'"), ["a", "c"]);
        assert_eq!(words("r#type 'ä' ä"), ["r", "type", "ä"]);
        assert_eq!(words("\"open"), [""; 0]);
        assert_eq!(words("/* open"), [""; 0]);
    }
}

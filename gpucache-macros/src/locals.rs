//! Finds out whether an identifier is a local variable where it stands. A macro cannot ask the compiler, so this reads the source file
//! up to the identifier.
//!
//! The text may not be there, as in generated code. Then nothing is known, and no variable is found. Nor is one found where the text may
//! mean two things: a name that is refused wrongly stops a correct program, and a name that is accepted wrongly only misleads.

use crate::source::before;
use crate::text::{Token, tokens};
use proc_macro2::Ident;
use syn::ext::IdentExt;

/// Whether a local variable of this name is visible at the identifier.
pub(crate) fn is_variable(word: &Ident) -> bool {
    let name = word.unraw().to_string();
    before(word, &name).is_some_and(|text| is_visible(&tokens(&text), &name))
}

/// The tokens between two delimiters, as far as they were read.
#[derive(Default)]
struct Frame<'t> {
    /// Variables that are visible in it.
    names: Vec<&'t str>,
    /// How many of them were there before the closure or the arm that is read, which ends with a comma.
    until_comma: Option<usize>,
    /// Variables that are visible behind the next semicolon.
    later: Vec<&'t str>,
    /// Whether it is the body of a function, which sees no variables around it.
    is_function: bool,
}

/// A reader of tokens, and the delimiters that are open.
struct Reader<'a, 't> {
    tokens: &'a [Token<'t>],
    frames: Vec<Frame<'t>>,
    /// Variables of the next block in braces that is within as many frames.
    next: Vec<&'t str>,
    next_depth: usize,
    is_function: bool,
}

/// Whether a variable of this name is visible behind the tokens.
fn is_visible(tokens: &[Token<'_>], name: &str) -> bool {
    let mut reader =
        Reader { tokens, frames: vec![Frame::default()], next: Vec::new(), next_depth: 0, is_function: false };
    let mut place = 0;
    while place < tokens.len() {
        place = reader.step(place);
    }
    for frame in reader.frames.iter().rev() {
        if frame.names.contains(&name) {
            return true;
        }
        if frame.is_function {
            return false;
        }
    }
    false
}

impl<'t> Reader<'_, 't> {
    /// Reads what begins at `place`. Returns the place behind it.
    fn step(&mut self, place: usize) -> usize {
        match self.tokens[place] {
            Token::Word("fn") if matches!(self.tokens.get(place + 1), Some(Token::Word(_))) => self.function(place + 2),
            Token::Word("let") => self.binding(place),
            Token::Word("for") => self.repeated(place + 1),
            Token::Sign('|') if self.begins_closure(place) => self.closure(place + 1),
            Token::Sign('=') if self.is_sign(place + 1, '>') => self.arm(place),
            Token::Sign(sign) => self.sign(sign, place),
            Token::Word(_) | Token::Literal => place + 1,
        }
    }

    fn is_sign(&self, place: usize, sign: char) -> bool {
        self.tokens.get(place) == Some(&Token::Sign(sign))
    }

    fn frame(&mut self) -> &mut Frame<'t> {
        if self.frames.is_empty() {
            self.frames.push(Frame::default());
        }
        let last = self.frames.len() - 1;
        &mut self.frames[last]
    }

    fn sign(&mut self, sign: char, place: usize) -> usize {
        match sign {
            '{' => {
                let is_function = self.is_next_here() && std::mem::take(&mut self.is_function);
                let names = self.take_next();
                self.frames.push(Frame { names, is_function, ..Frame::default() });
            }
            '(' | '[' => self.frames.push(Frame::default()),
            '}' | ')' | ']' => {
                drop(self.frames.pop());
                if sign == '}' && !self.goes_on(place + 1) {
                    self.end_arm();
                }
            }
            ',' => self.end_arm(),
            ';' => self.end_statement(),
            _ => {}
        }
        place + 1
    }

    /// Whether the expression that ended with a brace may go on here. If not, an arm ends without a comma.
    fn goes_on(&self, place: usize) -> bool {
        matches!(self.tokens.get(place), Some(Token::Word("else" | "as") | Token::Sign('.' | '?')))
    }

    /// The closure or the arm that has no braces has ended.
    fn end_arm(&mut self) {
        let frame = self.frame();
        if let Some(before) = frame.until_comma.take() {
            frame.names.truncate(before);
        }
    }

    fn end_statement(&mut self) {
        self.end_arm();
        let frame = self.frame();
        let later = std::mem::take(&mut frame.later);
        frame.names.extend(later);
        if self.is_next_here() {
            // A function without a body.
            (self.next, self.is_function) = (Vec::new(), false);
        }
    }

    /// Whether the next block in this frame is the one that sees the variables of `next`.
    fn is_next_here(&self) -> bool {
        self.next_depth == self.frames.len()
    }

    fn take_next(&mut self) -> Vec<&'t str> {
        if self.is_next_here() { std::mem::take(&mut self.next) } else { Vec::new() }
    }

    /// Variables of the next block in this frame, beside those that it sees already.
    fn add_next(&mut self, names: Vec<&'t str>) {
        let before = self.take_next();
        (self.next, self.next_depth) = (before, self.frames.len());
        self.next.extend(names);
    }

    /// The parameters of a function. Its body is the next block.
    fn function(&mut self, place: usize) -> usize {
        let Some(start) = self.find(place, &['(']) else { return place };
        let mut names = Vec::new();
        let mut end = start + 1;
        while end < self.tokens.len() && !self.is_sign(end, ')') {
            let behind = self.end_of_pattern(end, &[':', ',', ')']);
            names.extend(self.names(end, behind));
            end = self.end_of_pattern(behind, &[',', ')']);
            end += usize::from(self.is_sign(end, ','));
        }
        (self.next, self.next_depth, self.is_function) = (names, self.frames.len(), true);
        end + 1
    }

    /// `let PATTERN = ..`, and `if let PATTERN = .. {`.
    fn binding(&mut self, place: usize) -> usize {
        let end = self.end_of_pattern(place + 1, &[':', '=', ';']);
        let names = self.names(place + 1, end);
        let is_condition = match place.checked_sub(1).map(|before| self.tokens[before]) {
            Some(Token::Word(word)) => matches!(word, "if" | "while"),
            Some(Token::Sign(sign)) => matches!(sign, '&' | '|'),
            Some(Token::Literal) | None => false,
        };
        if is_condition {
            self.add_next(names)
        } else {
            self.frame().later.extend(names)
        }
        end
    }

    /// `for PATTERN in .. {`, unless it is the `for` of an `impl` or of a bound.
    fn repeated(&mut self, place: usize) -> usize {
        let within = |token: &Token<'_>| matches!(token, Token::Word("in") | Token::Sign('{' | ';'));
        let Some(end) = self.tokens[place..].iter().position(within).map(|length| place + length) else { return place };
        if self.tokens[end] == Token::Word("in") {
            let names = self.names(place, end);
            self.add_next(names);
            return end;
        }
        place
    }

    /// Whether a `|` stands where an expression begins.
    fn begins_closure(&self, place: usize) -> bool {
        match place.checked_sub(1).map(|before| self.tokens[before]) {
            Some(Token::Word(word)) => matches!(word, "move" | "return" | "else" | "in"),
            Some(Token::Sign(sign)) => {
                matches!(sign, '(' | ',' | '=' | '{' | ';' | '>' | '[') && !self.is_sign(place + 1, '|')
            }
            Some(Token::Literal) | None => false,
        }
    }

    /// The parameters of a closure. They are visible in its block, or up to the next comma.
    fn closure(&mut self, place: usize) -> usize {
        const ENDS: [char; 6] = ['=', ',', ';', ')', ']', '}'];
        let end = self.end_of_pattern(place, &['|', '=', ';', ')', ']', '}']);
        let behind = self.end_of_pattern(end + 1, &ENDS);
        // The first pattern of an arm may begin with a `|` too.
        if !self.is_sign(end, '|') || self.is_sign(behind, '=') && self.is_sign(behind + 1, '>') {
            return place;
        }
        let mut names = Vec::new();
        let mut start = place;
        while start < end {
            let behind = self.end_of_pattern(start, &[':', ',', '|']);
            names.extend(self.names(start, behind));
            start = self.end_of_pattern(behind, &[',', '|']) + 1;
        }
        self.body(end + 1, names)
    }

    /// `PATTERN => ..`. The pattern began behind the last comma, or where the block began.
    fn arm(&mut self, place: usize) -> usize {
        let (mut start, mut depth) = (place, 0);
        while let Some(before) = start.checked_sub(1) {
            match self.tokens[before] {
                Token::Sign(')' | ']') => depth += 1,
                Token::Sign('}') if depth > 0 || self.ends_pattern(before) => depth += 1,
                Token::Sign('(' | '[' | '{') if depth > 0 => depth -= 1,
                Token::Sign(',' | '{' | '}' | '(' | '[' | ';') if depth == 0 => break,
                _ => {}
            }
            start = before;
        }
        let guard = self.tokens[start..place].iter().position(|token| *token == Token::Word("if"));
        let mut names = self.names(start, guard.map_or(place, |length| start + length));
        // Those of an `if let` in the guard.
        names.extend(self.take_next());
        self.body(place + 2, names)
    }

    /// Whether the brace ends a pattern, and not the arm before.
    fn ends_pattern(&self, brace: usize) -> bool {
        matches!(self.tokens.get(brace + 1), Some(Token::Word("if") | Token::Sign('=' | '|')))
    }

    /// Variables that are visible in the block that begins here, or up to the next comma.
    fn body(&mut self, place: usize, names: Vec<&'t str>) -> usize {
        if self.is_sign(place, '{') {
            self.frames.push(Frame { names, ..Frame::default() });
            return place + 1;
        }
        let frame = self.frame();
        let before = frame.names.len();
        frame.until_comma.get_or_insert(before);
        frame.names.extend(names);
        place
    }

    /// The first of these signs, wherever it stands.
    fn find(&self, place: usize, signs: &[char]) -> Option<usize> {
        let is_one = |token: &Token<'_>| matches!(token, Token::Sign(sign) if signs.contains(sign));
        self.tokens.get(place..)?.iter().position(is_one).map(|length| place + length)
    }

    /// The first of these signs that stands in no delimiters and is not part of a path.
    fn end_of_pattern(&self, place: usize, signs: &[char]) -> usize {
        let (mut depth, mut place) = (0usize, place);
        while place < self.tokens.len() {
            let Token::Sign(sign) = self.tokens[place] else {
                place += 1;
                continue;
            };
            if depth == 0 && sign == ':' && self.is_sign(place + 1, ':') {
                place += 2;
                continue;
            }
            if depth == 0 && signs.contains(&sign) {
                break;
            }
            let is_arrow = sign == '>' && place > 0 && matches!(self.tokens[place - 1], Token::Sign('-' | '='));
            match sign {
                '(' | '[' | '{' | '<' => depth += 1,
                ')' | ']' | '}' | '>' if !is_arrow => depth = depth.saturating_sub(1),
                _ => {}
            }
            place += 1;
        }
        place
    }

    /// The variables of a pattern.
    fn names(&self, start: usize, end: usize) -> Vec<&'t str> {
        let end = end.min(self.tokens.len());
        let words = (start..end).filter_map(|place| match self.tokens[place] {
            Token::Word(word) if self.is_binding(place, end) => Some(word.strip_prefix("r#").unwrap_or(word)),
            _ => None,
        });
        words.filter(|word| !matches!(*word, "mut" | "ref" | "box" | "_" | "self" | "const" | "move")).collect()
    }

    /// Whether a word of a pattern names a variable: no type, no path, no field before its pattern.
    fn is_binding(&self, place: usize, end: usize) -> bool {
        let Token::Word(word) = self.tokens[place] else { return false };
        let is_path = place > 0 && self.is_sign(place - 1, ':') && place > 1 && self.is_sign(place - 2, ':');
        let is_other = place + 1 < end && ['(', '{', ':', '!'].iter().any(|sign| self.is_sign(place + 1, *sign));
        word.starts_with(|first: char| first == '_' || first.is_lowercase()) && !is_path && !is_other
    }
}

#[cfg(test)]
mod tests {
    use super::{is_visible, tokens};

    fn is_local(text: &str) -> bool {
        is_visible(&tokens(text), "name")
    }

    #[test]
    fn variables_around_the_place_are_found() {
        for text in [
            "fn f() { let name = 1; m!(",
            "fn f() { let (a, mut name): (u8, Vec<u8>) = g(a, b); if a { m!(",
            "fn f(name: &str) -> Result<(), E> where T: A { m!(",
            "fn f<T: A>(a: HashMap<u8, u8>, name: T) { loop { m!(",
            "fn f() { for name in names { m!(",
            "fn f() { for (a, name) in names.iter() { m!(",
            "fn f() { names.map(|name| m!(",
            "fn f() { names.map(move |a, name: &str| { m!(",
            "fn f() { if let Some(name) = names { m!(",
            "fn f() { while let Some(name) = names.next() { m!(",
            "fn f() { match x { A => 1, Some(name) => m!(",
            "fn f() { match x { A { name, .. } if a(b) => { m!(",
            "fn f() { let S { a: name } = s; m!(",
            "fn f() { let name; m!(",
            "fn f() { let Some(name) = x else { return }; m!(",
            "fn f() { let r#name = 1; m!(",
            "fn f() { match x { \"a\" | \"b\" => 1, name => m!(",
            "fn f() { match x { A => 1, | B(name) | C(name) => m!(",
            "fn f() { match x { Some(name) => if a { 1 } else { m!(",
            "fn f() { match x { A if let Some(name) = a => m!(",
            "fn f() { if let Some(name) = g(|| { 1 }) { m!(",
            "fn f(name: u8) -> [u8; 3] { m!(",
            "fn f() { g(|S { a, .. }: S, name| m!(",
        ] {
            assert!(is_local(text), "{text}");
        }
    }

    #[test]
    fn what_is_not_visible_is_not_found() {
        for text in [
            "fn f() { m!(",
            "fn f() { let name = m!(",
            "fn f() { { let name = 1; } m!(",
            "fn f(name: &str) {} fn g() { m!(",
            "fn f(name: &str); fn g() { m!(",
            "fn f() { let name = 1; fn g() { m!(",
            "fn f() { for name in names {} m!(",
            "fn f() { names.map(|name| name + 1); m!(",
            "fn f() { names.fold(|name| 1, m!(",
            "fn f() { match x { Some(name) => 1, None => m!(",
            "fn f() { match x { Some(name) => { 1 } None => m!(",
            "fn f() { let a: name::T = 1; m!(",
            "fn f() { let S { name: a } = s; m!(",
            "fn f() { if let Some(name) = x {} m!(",
            "const name: u8 = 1; fn f() { m!(",
            "fn f() { // let name = 1;\n m!(",
            "fn f() { g(\"let name = 1;\"); m!(",
            "impl name for T { fn f(&self) { m!(",
            "fn f(g: impl Fn(name) -> u8) { m!(",
            "}}} ) m!(",
            "fn f(name: u8) { match x { \"a\" | \"b\" => name, _ => 0 } } fn g() { m!(",
            "fn f(name: u8) { match x { | \"a\" => name, _ => 0 } } fn g() { m!(",
            "fn f(name: u8) { matches!(name, '\\n' | '\\r') } fn g() { m!(",
            "fn f() { match x { Some(name) => if a { 1 } else { name } None => m!(",
            "fn f() { match x { A => 1, | B(name) | C(name) => { 1 } _ => m!(",
            "fn f() { match x { A if let Some(name) = a => 1, _ => { m!(",
            "fn f() { if let Some(name) = g(|| { m!(",
            "fn f() { let name = 1; fn g() -> [u8; 3] { m!(",
            "fn f() { let r#let = name; m!(",
            "fn f() { let r#type = 1; m!(",
        ] {
            assert!(!is_local(text), "{text}");
        }
    }
}

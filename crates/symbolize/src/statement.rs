//! What a line of source that allocates assigns to: `grid` of `double *grid = malloc(n)`.
//!
//! No parser of any language: tokens of a few lines, and shapes that C, C++, Rust, Go and Fortran have in common. What
//! has none of these shapes has no name, and where a line assigns twice, both are told.

use std::collections::BTreeSet;

/// Lines before and behind that a statement may have.
const BEFORE: usize = 6;
const BEHIND: usize = 3;
/// A name longer than this helps nobody.
const LONGEST: usize = 64;
/// Tokens that are looked at, at most: a line may be a whole file.
const MOST_TOKENS: usize = 2000;
/// In so many lines a function returns what a wrapper has allocated.
const RETURNED_WITHIN: usize = 24;
/// So many lines are looked at before a line, and from it on.
pub const AROUND: [usize; 2] = [BEFORE, RETURNED_WITHIN];

/// How a language ends statements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Language {
    /// By `;`.
    Semicolons,
    /// By the line's end, unless that says `&`.
    Fortran,
    /// By the line's end.
    Lines,
}

impl Language {
    /// By a file's name.
    pub fn of(file: &str) -> Self {
        let ending = file.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase()).unwrap_or_default();
        match ending.as_str() {
            "f" | "for" | "ftn" | "f77" | "f90" | "f95" | "f03" | "f08" | "fpp" => Language::Fortran,
            "go" | "jl" | "py" | "swift" | "kt" | "nim" => Language::Lines,
            _ => Language::Semicolons,
        }
    }
}

/// What a line does with what it allocates.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Assigned {
    To(String),
    /// To a variable that the function returns: whoever calls it knows it by another name.
    Returned(Option<String>),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Token<'a> {
    text: &'a str,
    line: usize,
}

/// How sure a shape is; the surest one of a line counts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Sure {
    /// `a = f(n)`.
    Call,
    /// `Type a(n)`.
    Declared,
    /// `a = malloc(n)`, `allocate(a(n))`, `a.resize(n)`.
    Allocates,
}

/// What line `number`, counted from one, assigns to.
pub fn assigned(lines: &[&str], number: u32, language: Language) -> Option<Assigned> {
    let at = (number as usize).checked_sub(1).filter(|&at| at < lines.len())?;
    let window = at.saturating_sub(BEFORE)..(at + 1 + BEHIND).min(lines.len());
    let tokens = tokens(&lines[window.clone()], window.start, language);
    let mut found: Vec<(Sure, String)> = Vec::new();
    let mut is_returned = false;
    for statement in statements(&tokens, language) {
        if !statement.iter().any(|token| token.line == at) {
            continue;
        }
        is_returned |= statement.first().is_some_and(|token| token.text == "return");
        candidates(statement, language, &mut found);
    }
    let surest = found.iter().map(|(sure, _)| *sure).max();
    let names: BTreeSet<&str> =
        found.iter().filter(|(sure, _)| Some(*sure) == surest).map(|(_, name)| name.as_str()).collect();
    let name = names.iter().copied().collect::<Vec<_>>().join(" or ");
    if name.is_empty() || name.len() > LONGEST {
        return is_returned.then_some(Assigned::Returned(None));
    }
    let is_plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    match is_plain && returns(lines, at, &name) {
        true => Some(Assigned::Returned(Some(name))),
        false => Some(Assigned::To(name)),
    }
}

/// Whether the function that a line is in returns a variable.
fn returns(lines: &[&str], at: usize, name: &str) -> bool {
    let ends = |line: &&&str| !line.starts_with('}');
    lines[at..].iter().take(RETURNED_WITHIN).take_while(ends).any(|line| {
        let words: Vec<&str> = line.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).collect();
        let mut words = words.into_iter().filter(|word| !word.is_empty());
        words.any(|word| word == "return") && words.eq([name])
    })
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

/// Operators of several characters, the longer ones first.
const OPERATORS: &[&str] = &[
    "<<=", ">>=", "...", "->", "::", "==", "!=", "<=", ">=", "+=", "-=", "*=", "/=", "|=", "&=", "^=", "%=", "&&",
    "||", ":=", "=>", "++", "--",
];

fn tokens<'a>(lines: &[&'a str], first: usize, language: Language) -> Vec<Token<'a>> {
    let mut found = Vec::new();
    let mut in_comment = false;
    for (index, &text) in lines.iter().enumerate() {
        let line = first + index;
        let bytes = text.as_bytes();
        let trimmed = text.trim_start();
        let is_comment = match language {
            Language::Fortran => trimmed.starts_with('!'),
            _ => trimmed.starts_with('#') && !trimmed.starts_with("#["),
        };
        if is_comment {
            continue;
        }
        let mut at = 0;
        while at < bytes.len() && found.len() < MOST_TOKENS {
            let rest = &text[at..];
            if in_comment {
                let end = rest.find("*/");
                in_comment = end.is_none();
                at = end.map_or(bytes.len(), |end| at + end + 2);
                continue;
            }
            let begin = at;
            match bytes[at] {
                _ if rest.starts_with("//") && language != Language::Fortran => break,
                b'!' if language == Language::Fortran => break,
                _ if rest.starts_with("/*") => {
                    in_comment = true;
                    at += 2;
                    continue;
                }
                quote @ (b'"' | b'\'') => {
                    at += 1;
                    let from = at;
                    while at < bytes.len() && bytes[at] != quote {
                        at += 1 + usize::from(bytes[at] == b'\\');
                    }
                    // A lifetime of Rust's is no text.
                    let is_text = at < bytes.len() && (quote == b'"' || at - from <= 4);
                    at = if is_text { at + 1 } else { from };
                    found.push(Token { text: "\"\"", line });
                    continue;
                }
                byte if is_word(byte) => {
                    while at < bytes.len() && is_word(bytes[at]) {
                        at += 1;
                    }
                }
                byte if byte.is_ascii_whitespace() => {
                    at += 1;
                    continue;
                }
                _ => at += OPERATORS.iter().find(|operator| rest.starts_with(**operator)).map_or(1, |o| o.len()),
            }
            found.push(Token { text: &text[begin..at], line });
        }
    }
    found
}

/// Tokens that belong together.
fn statements<'a, 'b>(tokens: &'b [Token<'a>], language: Language) -> Vec<&'b [Token<'a>]> {
    let mut found = Vec::new();
    let (mut begin, mut brackets) = (0, 0i32);
    for (at, token) in tokens.iter().enumerate() {
        let before = at.checked_sub(1).map(|before| tokens[before]);
        let new_line = before.is_some_and(|before| before.line != token.line);
        let goes_on = before.is_some_and(|before| match language {
            Language::Fortran => before.text == "&",
            _ => matches!(before.text, "," | "=" | ":=" | "("),
        });
        if new_line && !goes_on && language != Language::Semicolons {
            found.push(&tokens[begin..at]);
            begin = at;
        }
        match token.text {
            "[" => brackets += 1,
            "]" => brackets -= 1,
            ";" if brackets > 0 => {}
            ";" | "}" => {
                found.push(&tokens[begin..at]);
                (begin, brackets) = (at + 1, 0);
            }
            // What is declared with its arguments in braces is told by them.
            "{" => {
                found.push(&tokens[begin..=at]);
                (begin, brackets) = (at + 1, 0);
            }
            _ => {}
        }
    }
    found.push(&tokens[begin..]);
    found.retain(|statement| !statement.is_empty());
    found
}

const NO_NAMES: &[&str] = &[
    "return",
    "new",
    "delete",
    "else",
    "if",
    "while",
    "for",
    "switch",
    "case",
    "throw",
    "sizeof",
    "do",
    "goto",
    "using",
    "typedef",
    "operator",
    "co_return",
    "const",
    "static",
    "mut",
    "let",
    "match",
    "in",
    "true",
    "false",
    "auto",
    "void",
    "namespace",
    "struct",
    "class",
    "template",
    "typename",
    "fn",
    "func",
    "enum",
    "union",
    "impl",
    "unsafe",
    "extern",
];

fn is_name(text: &str) -> bool {
    let first = text.bytes().next().unwrap_or(b'0');
    text.is_ascii() && is_word(first) && !first.is_ascii_digit() && !NO_NAMES.contains(&text)
}

/// Whether what stands there allocates by its name.
fn allocates(tokens: &[Token]) -> bool {
    const WORDS: &[&str] =
        &["alloc", "make", "mmap", "memalign", "vec", "clone", "strdup", "capacity", "zeros", "collect"];
    let is_it = |text: &str| {
        let text = text.to_ascii_lowercase();
        matches!(text.as_str(), "new" | "box" | "arc" | "rc") || WORDS.iter().any(|word| text.contains(word))
    };
    tokens.iter().any(|token| is_it(token.text))
}

/// The place that the tokens before `end` name, as it is written.
fn place(tokens: &[Token], end: usize, language: Language) -> Option<String> {
    let mut at = end;
    loop {
        // Subscripts.
        while at > 0 && tokens[at - 1].text == "]" {
            let mut depth = 0;
            loop {
                at = at.checked_sub(1)?;
                match tokens[at].text {
                    "]" => depth += 1,
                    "[" => depth -= 1,
                    _ => {}
                }
                if depth == 0 {
                    break;
                }
            }
        }
        at = at.checked_sub(1)?;
        let text = tokens[at].text;
        if !is_name(text) && text != "this" {
            return None;
        }
        let is_joint = |text: &str| matches!(text, "." | "->" | "::") || language == Language::Fortran && text == "%";
        if at > 0 && is_joint(tokens[at - 1].text) {
            at -= 1;
        } else {
            break;
        }
    }
    // `*out = malloc(n)`, which is no declaration.
    let is_star = |at: usize| tokens.get(at).is_some_and(|token| token.text == "*");
    let pointed = at.checked_sub(1).filter(|&star| is_star(star) && (star == 0 || tokens[star - 1].text == ")"));
    let mut name: String = tokens[pointed.unwrap_or(at)..end].iter().map(|token| token.text).collect();
    for own in ["this->", "self."] {
        if let Some(rest) = name.strip_prefix(own) {
            name = rest.to_owned();
        }
    }
    let is_plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\'' | b'\\' | b'<' | b'>' | b'&');
    let is_fit = name.len() <= LONGEST && name.replace("->", ".").bytes().all(is_plain);
    is_fit.then_some(name)
}

/// Methods by which a container allocates.
const METHODS: &[&str] = &[
    "resize",
    "reserve",
    "push_back",
    "emplace_back",
    "push_front",
    "emplace",
    "assign",
    "insert",
    "append",
    "push",
    "extend",
    "reset",
    "resize_with",
    "extend_from_slice",
    "shrink_to_fit",
];

/// The names that a statement may assign to.
fn candidates(tokens: &[Token], language: Language, found: &mut Vec<(Sure, String)>) {
    if matches!(text(tokens, 0), "let" | "var") {
        found.extend(bound(tokens).map(|name| (Sure::Allocates, name)));
        return;
    }
    let mut at = 0;
    while at < tokens.len() {
        let text = |behind: usize| text(tokens, at + behind);
        let mut sure_of = |name: Option<String>| found.extend(name.map(|name| (Sure::Allocates, name)));
        match text(0) {
            ":=" => sure_of(declared_by_assignment(tokens, at, language)),
            "=" => {
                let assigned = by_assignment(tokens, at, language);
                found.extend(assigned.name);
                at = assigned.last;
            }
            // `cudaMalloc((void **)&a, n)`
            "(" if [text(1), text(2), text(3), text(4)] == ["void", "*", "*", ")"] => {
                sure_of(argument(tokens, at + 5, language));
            }
            "posix_memalign" if text(1) == "(" && text(2) != "(" => sure_of(argument(tokens, at + 2, language)),
            word if language == Language::Fortran && word.eq_ignore_ascii_case("allocate") && text(1) == "(" => {
                of_fortran(&tokens[at + 2..], found);
            }
            method if METHODS.contains(&method) && text(1) == "(" && is_called_on_a_place(tokens, at) => {
                sure_of(place(tokens, at - 1, language));
            }
            // `: cells(new Cell[n])`
            ":" | "," if is_name(text(1)) && matches!(text(2), "(" | "{") && text(3) == "new" => {
                sure_of(Some(text(1).to_owned()));
            }
            _ => {}
        }
        at += 1;
    }
    found.extend(declared(tokens, language).map(|name| (Sure::Declared, name)));
}

/// The text of a token; nothing behind the last.
fn text<'a>(tokens: &[Token<'a>], at: usize) -> &'a str {
    tokens.get(at).map_or("", |token| token.text)
}

/// `let mut a: Vec<f64> = vec![0.0; n]`, `let a = ...`.
fn bound(tokens: &[Token]) -> Option<String> {
    let name = text(tokens, 1 + usize::from(text(tokens, 1) == "mut"));
    (is_name(name) && tokens.iter().any(|token| token.text == "=")).then(|| name.to_owned())
}

/// `a, err := f(n)`, with `:=` at `at`: of a list the first.
fn declared_by_assignment(tokens: &[Token], at: usize, language: Language) -> Option<String> {
    if tokens[..at].iter().any(|token| token.text == ",") {
        Some(text(tokens, 0).to_owned()).filter(|name| is_name(name))
    } else {
        place(tokens, at, language)
    }
}

/// What a `=` says.
struct ByAssignment {
    name: Option<(Sure, String)>,
    /// The `=` that is the last of a chain of them, `a = b = malloc(n)`, whose first names the memory.
    last: usize,
}

/// `a = f(n)`, with `=` at `at`.
fn by_assignment(tokens: &[Token], at: usize, language: Language) -> ByAssignment {
    let rest = &tokens[at + 1..];
    let sure = match allocates(rest) {
        true => Some(Sure::Allocates),
        false => rest.iter().any(|token| token.text == "(").then_some(Sure::Call),
    };
    let next = sure.and_then(|_| rest.iter().position(|token| token.text == "="));
    let is_chain =
        |next: &usize| rest[..*next].iter().all(|token| is_name(token.text) || ".->[]*".contains(token.text));
    let last = at + next.filter(is_chain).map_or(0, |next| next + 1);
    ByAssignment { name: sure.zip(place(tokens, at, language)), last }
}

/// The place whose address is an argument, `&a` or `a`, at `at`.
fn argument(tokens: &[Token], at: usize, language: Language) -> Option<String> {
    let from = at + usize::from(text(tokens, at) == "&");
    let end = (from..tokens.len()).find(|&end| matches!(tokens[end].text, "," | ")")).filter(|end| from < *end)?;
    place(&tokens[from..end], end - from, language)
}

/// Whether the word at `at` is behind `a.` or `a->`.
fn is_called_on_a_place(tokens: &[Token], at: usize) -> bool {
    at > 1 && matches!(tokens[at - 1].text, "." | "->")
}

/// `allocate(a(n), grid%b(n, m), stat=error)`.
fn of_fortran(tokens: &[Token], found: &mut Vec<(Sure, String)>) {
    let mut depth = 0i32;
    let mut begin = 0;
    for (at, token) in tokens.iter().enumerate() {
        match token.text {
            "(" if depth == 0 => {
                found.extend(
                    place(&tokens[begin..at], at - begin, Language::Fortran).map(|name| (Sure::Allocates, name)),
                );
                depth = 1;
            }
            "(" => depth += 1,
            ")" if depth == 0 => break,
            ")" => depth -= 1,
            "," if depth == 0 => begin = at + 1,
            // `allocate(real(8) :: a(n))`
            "::" if depth == 0 => {
                found.clear();
                begin = at + 1;
            }
            _ => {}
        }
    }
}

/// `std::vector<double> a(n)`, `Grid a{n}`.
fn declared(tokens: &[Token], language: Language) -> Option<String> {
    if language != Language::Semicolons {
        return None;
    }
    let open = tokens.iter().position(|token| matches!(token.text, "(" | "{" | "="))?;
    let name = tokens.get(open.checked_sub(1)?)?;
    let before = tokens.get(open.checked_sub(2)?)?;
    let is_type = is_name(before.text) || matches!(before.text, ">" | "*" | "&" | "auto");
    let is_statement = tokens
        .iter()
        .take(open)
        .all(|token| !matches!(token.text, "return" | "new" | "." | "->" | "else" | "fn" | "delete" | "throw"));
    // A function's head: `void f(int n) {`.
    let is_head = tokens[open].text == "(" && tokens.last().is_some_and(|token| token.text == "{");
    let is_it = tokens[open].text != "=" && is_type && is_statement && !is_head && is_name(name.text);
    is_it.then(|| name.text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to(text: &str, language: Language) -> Option<Assigned> {
        // The marked line, or the only one.
        let lines: Vec<&str> = text.lines().collect();
        let at = lines.iter().position(|line| line.contains("HERE")).unwrap_or(0);
        assigned(&lines, at as u32 + 1, language)
    }

    #[test]
    fn lines_assign_to_what_stands_before_their_allocation() {
        use Language::*;
        for (language, text, name) in [
            (Semicolons, "  b = malloc(n);", "b"),
            (Semicolons, "float *b = (float *)malloc(n * sizeof(float)); // = c()", "b"),
            (Semicolons, "this->p = (double*)malloc(n);", "p"),
            (Semicolons, "double **rows = new double *[n];", "rows"),
            (Semicolons, "for (int i = 0; i < n; i++) rows[i] = malloc(n);", "rows[i]"),
            (Semicolons, "if ((grid->cells = calloc(n, 8)) == NULL) die();", "grid->cells"),
            (Semicolons, "a = b = malloc(n);", "a"),
            (Semicolons, "*out = malloc(n);", "*out"),
            (Semicolons, "double *a =\n    static_cast<double *>(malloc(n)); // HERE", "a"),
            (Semicolons, "double *a = static_cast<double *>( // HERE\n    malloc(n));", "a"),
            (Semicolons, "posix_memalign((void **)&table, 64, n);", "table"),
            (Semicolons, "if (posix_memalign(&table, 64, n)) return 1;", "table"),
            (Semicolons, "cudaMallocManaged((void**)&m->x, n);", "m->x"),
            (Semicolons, "std::vector<double> v(n);", "v"),
            (Semicolons, "std::vector<std::vector<int>> v(n, std::vector<int>(m));", "v"),
            (Semicolons, "Grid grid{n, n};", "grid"),
            (Semicolons, "auto v = std::make_unique<double[]>(n);", "v"),
            (Semicolons, "values.resize(n);", "values"),
            (Semicolons, "tiles[k]->values.push_back(Tile(n));", "tiles[k]->values"),
            (Semicolons, "    : size(n), data(new double[n]) {}", "data"),
            (Semicolons, "a = malloc(n); b = malloc(n);", "a or b"),
            (Semicolons, "void f(int n) { a = malloc(n); }", "a"),
            (Semicolons, "    let mut a: Vec<f64> = vec![0.0; n];", "a"),
            (Semicolons, "self.rows = Vec::with_capacity(n);", "rows"),
            (Lines, "a := make([]float64, n)", "a"),
            (Lines, "table, err = load(n)", "err"),
            (Lines, "table, err := load(n)", "table"),
            (Fortran, "  allocate(a(n))", "a"),
            (Fortran, "  ALLOCATE ( grid%b(n, 0:m), stat=ierr )", "grid%b"),
            (Fortran, "  allocate(a(n), b(n)) ! c(n)", "a or b"),
            (Fortran, "  allocate(a(n), & ! HERE\n           b(n))", "a or b"),
        ] {
            assert_eq!(to(text, language), Some(Assigned::To(name.to_owned())), "{text}");
        }
    }

    #[test]
    fn what_is_returned_is_named_by_who_calls() {
        let returned = |name: &str| Some(Assigned::Returned(Some(name.to_owned())));
        assert_eq!(to("return malloc(n);", Language::Semicolons), Some(Assigned::Returned(None)));
        assert_eq!(
            to("  void *p = malloc(n); // HERE\n  if (!p) abort();\n  return p;\n}", Language::Semicolons),
            returned("p")
        );
        let other = "  void *p = malloc(n); // HERE\n  return q;\n}\nvoid *f() {\n  return p;\n";
        assert_eq!(to(other, Language::Semicolons), Some(Assigned::To("p".to_owned())));
    }

    #[test]
    fn what_assigns_nothing_has_no_name() {
        for text in [
            "use(malloc(n));",
            "new Grid(n);",
            "void work(int n) {",
            "",
            "// a = malloc(n);",
            "#define a = malloc(n)",
            "i < n; i == m; f(n);",
            "= malloc(n);",
            "]] = malloc(n);",
            "[[[[ = new",
            "'",
        ] {
            assert_eq!(to(text, Language::Semicolons), None, "{text}");
        }
        assert_eq!(assigned(&[], 0, Language::Lines), None);
        assert_eq!(assigned(&["a = new b"], 7, Language::Lines), None);
    }

    #[test]
    fn long_lines_and_names_are_bounded() {
        let long = format!("{} = malloc(n);", "a".repeat(1 << 20));
        assert_eq!(to(&long, Language::Semicolons), None);
        let many = "x = y(); ".repeat(100_000);
        assert_eq!(to(&many, Language::Semicolons), Some(Assigned::To("x".to_owned())));
    }
}

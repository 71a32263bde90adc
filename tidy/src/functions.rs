//! Functions that a reader can hold at once.
//!
//! A function fits a screen of 70 lines. Where cutting it would hurt the reader, a comment before it says why, in a line
//! that begins with `Longer than a screen:`. Braces are counted in Rust, indents in Python.

use crate::repository::Repository;
use crate::source::code_of_rust;

/// Lines of a function, its signature included, that fit a screen.
pub const FUNCTION_LINES_MAX: usize = 70;

/// How a comment begins that says why a function is longer.
const EXCUSE: &str = "Longer than a screen: ";

/// Functions that are too long and do not say why.
pub fn problems(repository: &Repository) -> Vec<String> {
    let rust = repository
        .with_extension(&["rs"])
        .map(|(path, text)| (path, text, functions_of_rust(text)));
    let python = repository
        .with_extension(&["py"])
        .map(|(path, text)| (path, text, functions_of_python(text)));
    rust.chain(python)
        .flat_map(|(path, text, functions)| {
            let long = functions
                .into_iter()
                .filter(|function| function.lines > FUNCTION_LINES_MAX);
            let bare = long.filter(|function| !is_excused(text, function.line));
            bare.map(move |function| (path, function))
                .collect::<Vec<_>>()
        })
        .map(|(path, Function { line, lines })| {
            format!("{path}:{line}: a function of {lines} lines, at most {FUNCTION_LINES_MAX}")
        })
        .collect()
}

/// Whether the comment right before the function says why it is long.
fn is_excused(text: &str, line: usize) -> bool {
    let before: Vec<&str> = text.lines().take(line - 1).map(str::trim).collect();
    let mut comment = before.iter().rev().take_while(|line| {
        ["//", "#"].iter().any(|start| line.starts_with(start)) && !line.is_empty()
    });
    comment.any(|line| {
        let said = line.trim_start_matches(['/', '#', ' ']);
        said.len() > EXCUSE.len() && said.starts_with(EXCUSE)
    })
}

struct Function {
    line: usize,
    lines: usize,
}

fn functions_of_rust(text: &str) -> Vec<Function> {
    let code = code_of_rust(text);
    let mut functions = Vec::new();
    let mut from = 0;
    while let Some(found) = code[from..].find("fn ") {
        let start = from + found;
        from = start + 3;
        let starts_a_word = !code[..start]
            .ends_with(|character: char| character.is_alphanumeric() || character == '_');
        if starts_a_word && let Some(end) = body_end(&code, from) {
            functions.push(Function {
                line: 1 + code[..start].matches('\n').count(),
                lines: 1 + code[start..end].matches('\n').count(),
            });
        }
    }
    functions
}

/// Where the body closes; `None` for a declaration without one and for a function type.
fn body_end(code: &str, from: usize) -> Option<usize> {
    let mut brackets = 0usize;
    let mut braces = 0usize;
    for (at, byte) in code.bytes().enumerate().skip(from) {
        match byte {
            b'(' | b'[' => brackets += 1,
            b')' | b']' => brackets = brackets.checked_sub(1)?,
            b';' if brackets == 0 && braces == 0 => return None,
            b'{' => braces += 1,
            b'}' => {
                braces = braces.checked_sub(1)?;
                if braces == 0 && brackets == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
    }
    None
}

fn functions_of_python(text: &str) -> Vec<Function> {
    let lines: Vec<&str> = text.lines().collect();
    let indent = |line: &str| line.len() - line.trim_start().len();
    let is_definition = |line: &str| {
        ["def ", "async def "]
            .iter()
            .any(|word| line.trim_start().starts_with(word))
    };
    // A closing bracket at the margin of the definition belongs to its signature.
    let is_outside = |line: &str, margin: usize| {
        !line.trim().is_empty()
            && indent(line) <= margin
            && !line.trim_start().starts_with([')', ']', '}'])
    };
    lines
        .iter()
        .enumerate()
        .filter(|(_, line)| is_definition(line))
        .map(|(start, line)| {
            let body = &lines[start + 1..];
            let end = body
                .iter()
                .position(|next| is_outside(next, indent(line)))
                .unwrap_or(body.len());
            let used = body[..end]
                .iter()
                .rposition(|next| !next.trim().is_empty())
                .map_or(0, |last| last + 1);
            Function {
                line: start + 1,
                lines: 1 + used,
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{functions_of_python, functions_of_rust, problems};
    use crate::repository::Repository;

    #[test]
    fn a_long_function_is_named_by_its_line() {
        let rust = format!(
            "//! x\npub fn long() {{\n{}}}\nfn short() {{}}\n",
            "    call();\n".repeat(99)
        );
        let python = format!(
            "def long(\n    a,\n) -> None:\n{}\ndef short(): ...\n",
            "    call()\n".repeat(98)
        );
        let found = problems(&Repository::of(&[("a.rs", &rust), ("a.py", &python)]));
        assert_eq!(found.len(), 2);
        assert!(
            found[0].starts_with("a.rs:2: a function of 101 lines"),
            "{}",
            found[0]
        );
        assert!(
            found[1].starts_with("a.py:1: a function of 101 lines"),
            "{}",
            found[1]
        );
    }

    #[test]
    fn a_long_function_that_says_why_is_fine() {
        let body = "    call();\n".repeat(99);
        let long = |comment: &str| format!("{comment}pub fn long() {{\n{body}}}\n");
        let found = |text: &str| problems(&Repository::of(&[("a.rs", text)])).len();
        assert_eq!(
            found(&long(
                "/// Calls.\n// Longer than a screen: one line a call.\n#[inline]\n"
            )),
            0
        );
        assert_eq!(found(&long("// Longer than a screen: \n")), 1);
        assert_eq!(
            found(&long(
                "// Longer than a screen: another one.\nfn short() {}\n"
            )),
            1
        );
    }

    #[test]
    fn a_declaration_has_no_body() {
        let functions =
            functions_of_rust("trait T {\n fn a(&self);\n fn b(x: [u8; 3]) { \"}\"; }\n}\n");
        assert_eq!(
            functions
                .iter()
                .map(|function| (function.line, function.lines))
                .collect::<Vec<_>>(),
            [(3, 1)]
        );
    }

    #[test]
    fn a_method_ends_where_its_indent_ends() {
        let functions = functions_of_python(
            "class A:\n    def a(self):\n        pass\n\n    def b(self):\n        pass\n",
        );
        assert_eq!(
            functions
                .iter()
                .map(|function| function.lines)
                .collect::<Vec<_>>(),
            [2, 2]
        );
    }
}

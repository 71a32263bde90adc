//! Functions that a reader can hold at once.
//!
//! The rule of style is a screen of 70 lines; this one stops what has clearly outgrown it. Braces are counted in Rust,
//! indents in Python.

use crate::repository::Repository;
use crate::source::code_of_rust;

/// Lines of a function, its signature included, above which it does more than one thing.
pub const FUNCTION_LINES_MAX: usize = 100;

/// Functions that are too long.
pub fn problems(repository: &Repository) -> Vec<String> {
    let rust = repository
        .with_extension(&["rs"])
        .map(|(path, text)| (path, functions_of_rust(text)));
    let python = repository
        .with_extension(&["py"])
        .map(|(path, text)| (path, functions_of_python(text)));
    rust.chain(python)
        .flat_map(|(path, functions)| functions.into_iter().map(move |function| (path, function)))
        .filter(|(_, function)| function.lines > FUNCTION_LINES_MAX)
        .map(|(path, Function { line, lines })| {
            format!("{path}:{line}: a function of {lines} lines, at most {FUNCTION_LINES_MAX}")
        })
        .collect()
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

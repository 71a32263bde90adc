//! The glossary can be searched by eye: each table's words stand once and in order.

use crate::repository::Repository;
use crate::table;

const PAGE: &str = "docs/glossary.md";
const HEADERS: [&[&str]; 3] = [
    &["word", "meaning"],
    &["papers say", "here"],
    &["not", "say"],
];

/// Words that stand twice or out of order, and tables that are gone.
pub fn problems(repository: &Repository) -> Vec<String> {
    let page = repository.text(PAGE).unwrap_or("");
    HEADERS
        .iter()
        .flat_map(|header| match table::rows(page, header) {
            Some(rows) if !rows.is_empty() => out_of_order(&rows),
            Some(_) | None => vec![format!("{PAGE}: no table `{}`", header.join(" | "))],
        })
        .collect()
}

fn out_of_order(rows: &[Vec<String>]) -> Vec<String> {
    let keys: Vec<String> = rows
        .iter()
        .map(|row| row[0].replace('`', "").to_lowercase())
        .collect();
    keys.windows(2)
        .filter(|pair| pair[0] >= pair[1])
        .map(|pair| {
            if pair[0] == pair[1] {
                format!("{PAGE}: `{}` stands twice", pair[0])
            } else {
                format!("{PAGE}: `{}` stands after `{}`", pair[1], pair[0])
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::problems;
    use crate::repository::Repository;

    #[test]
    fn a_word_twice_or_out_of_order_is_named() {
        let rest = "\n| papers say | here |\n| --- | --- |\n| a | b |\n\n| not | say |\n| --- | --- |\n| a | b |\n";
        let page =
            format!("| word | meaning |\n| --- | --- |\n| b | |\n| `a` | |\n| a | |\n{rest}");
        let found = problems(&Repository::of(&[("docs/glossary.md", &page)]));
        assert_eq!(
            found,
            [
                "docs/glossary.md: `a` stands after `b`",
                "docs/glossary.md: `a` stands twice"
            ]
        );
    }

    #[test]
    fn a_missing_table_is_named() {
        assert_eq!(problems(&Repository::of(&[])).len(), 3);
    }
}

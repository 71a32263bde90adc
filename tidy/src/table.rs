//! Tables of Markdown: the rows below the header that a rule names.

/// The cells of each row under the header with exactly these cells; `None` when the page has no such table.
pub(crate) fn rows(page: &str, header: &[&str]) -> Option<Vec<Vec<String>>> {
    let mut lines = page.lines();
    lines
        .by_ref()
        .find(|line| cells(line).is_some_and(|cells| cells == header))?;
    let rule = lines.next()?;
    if !rule.starts_with('|') || !rule.contains("---") {
        return None;
    }
    Some(lines.map_while(cells).collect())
}

/// What stands between backticks in a cell, in order.
pub(crate) fn quoted(cell: &str) -> Vec<String> {
    cell.split('`')
        .skip(1)
        .step_by(2)
        .map(str::to_owned)
        .collect()
}

fn cells(line: &str) -> Option<Vec<String>> {
    let inner = line.trim().strip_prefix('|')?.strip_suffix('|')?;
    Some(
        inner
            .split('|')
            .map(|cell| cell.trim().to_owned())
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::{quoted, rows};

    #[test]
    fn rows_end_where_the_table_ends() {
        let page = "text\n| a | b |\n| --- | --- |\n| 1 | `x` `y` |\n\n| 2 | z |\n";
        let rows = rows(page, &["a", "b"]).expect("the table is there");
        assert_eq!(rows, [["1", "`x` `y`"]]);
        assert_eq!(quoted(&rows[0][1]), ["x", "y"]);
    }

    #[test]
    fn another_header_is_another_table() {
        assert_eq!(rows("| a |\n| --- |\n| 1 |\n", &["b"]), None);
    }
}

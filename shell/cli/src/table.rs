//! Rows of words in columns, for people: whatever a word is, it steers no terminal and begins no line.

use crate::print;

/// The rows under their titles, each column as wide as its widest word.
pub(crate) fn table(titles: &[&str], rows: &[Vec<String>]) -> String {
    let titles: Vec<String> = titles.iter().map(|title| (*title).to_owned()).collect();
    let words = |row: &Vec<String>| row.iter().map(|word| print::word(word)).collect();
    let rows: Vec<Vec<String>> = rows.iter().map(words).collect();
    let all = || std::iter::once(&titles).chain(&rows);
    let widths: Vec<usize> = (0..titles.len())
        .map(|column| {
            all()
                .map(|row| row[column].chars().count())
                .max()
                .unwrap_or(0)
        })
        .collect();
    let mut text = String::new();
    for row in all() {
        let mut line = String::new();
        for (word, width) in row.iter().zip(&widths) {
            line.push_str(&format!("{word:width$}  "));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let rows = [vec!["1".to_owned(), "leader".to_owned()]];
        assert_eq!(
            table(&["NODE", "ROLE"], &rows),
            "NODE  ROLE\n1     leader\n"
        );
        let rows = [vec!["1\n2".to_owned(), "\u{1b}[2J".to_owned()]];
        assert_eq!(
            table(&["NODE", "ROLE"], &rows),
            "NODE  ROLE\n1\\n2  \\u{1b}[2J\n"
        );
    }
}

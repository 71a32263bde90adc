//! Files short enough to hold one idea.

use crate::repository::Repository;

/// Lines of a file above which it surely holds two ideas.
pub const FILE_LINES_MAX: usize = 600;

/// Source files that are too long.
pub fn problems(repository: &Repository) -> Vec<String> {
    repository
        .with_extension(&["rs", "py", "pyi", "ts", "tsx"])
        .map(|(path, text)| (path, text.lines().count()))
        .filter(|(_, lines)| *lines > FILE_LINES_MAX)
        .map(|(path, lines)| {
            format!("{path}: {lines} lines, at most {FILE_LINES_MAX}: split it by idea")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{FILE_LINES_MAX, problems};
    use crate::repository::Repository;

    #[test]
    fn a_file_of_one_line_too_many_is_named() {
        let (fits, long) = ("\n".repeat(FILE_LINES_MAX), "\n".repeat(FILE_LINES_MAX + 1));
        let found = problems(&Repository::of(&[
            ("fits.rs", &fits),
            ("long.py", &long),
            ("long.md", &long),
        ]));
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("long.py: 601 lines"));
    }
}

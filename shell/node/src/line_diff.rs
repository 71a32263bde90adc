//! The difference of two texts, line by line, as `diff -u` shows it. Only for people: nothing is decided by it.

/// Lines of context around a change.
const CONTEXT: usize = 3;

/// Lines between the first and the last change that are compared pair by pair; more are shown as replaced as a whole.
const COMPARED_MAX: usize = 2000;

/// One line of the result.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mark {
    Both,
    Before,
    After,
}

/// The changed parts with some lines around them.
pub(crate) fn unified(before: &str, after: &str) -> Vec<String> {
    let (before, after): (Vec<&str>, Vec<&str>) =
        (before.lines().collect(), after.lines().collect());
    let marked = marked(&before, &after);
    let mut shown = vec![false; marked.len()];
    for (at, (mark, _)) in marked.iter().enumerate() {
        if *mark != Mark::Both {
            let end = (at + CONTEXT + 1).min(marked.len());
            shown[at.saturating_sub(CONTEXT)..end].fill(true);
        }
    }
    let (mut out, mut old, mut new, mut is_open) = (Vec::new(), 1, 1, false);
    for ((mark, line), is_shown) in marked.iter().zip(shown) {
        if is_shown {
            if !is_open {
                out.push(format!("@@ line {old}, then line {new} @@"));
            }
            out.push(match mark {
                Mark::Both => format!(" {line}"),
                Mark::Before => format!("-{line}"),
                Mark::After => format!("+{line}"),
            });
        }
        is_open = is_shown;
        old += usize::from(*mark != Mark::After);
        new += usize::from(*mark != Mark::Before);
    }
    out
}

fn marked<'a>(before: &[&'a str], after: &[&'a str]) -> Vec<(Mark, &'a str)> {
    let pairs = before.iter().zip(after);
    let head = pairs.take_while(|(old, new)| old == new).count();
    let (old, new) = (&before[head..], &after[head..]);
    let pairs = old.iter().rev().zip(new.iter().rev());
    let tail = pairs.take_while(|(old, new)| old == new).count();
    let (old, new) = (&old[..old.len() - tail], &new[..new.len() - tail]);
    let both = |line: &&'a str| (Mark::Both, *line);
    let mut out: Vec<_> = before[..head].iter().map(both).collect();
    if old.len() > COMPARED_MAX || new.len() > COMPARED_MAX {
        out.extend(old.iter().map(|line| (Mark::Before, *line)));
        out.extend(new.iter().map(|line| (Mark::After, *line)));
    } else {
        out.extend(compared(old, new));
    }
    out.extend(before[before.len() - tail..].iter().map(both));
    out
}

/// By the longest common subsequence.
fn compared<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<(Mark, &'a str)> {
    let width = new.len() + 1;
    // The length that the rest after each pair of places has in common.
    let mut common = vec![0u16; (old.len() + 1) * width];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            common[i * width + j] = if old[i] == new[j] {
                common[(i + 1) * width + j + 1] + 1
            } else {
                common[(i + 1) * width + j].max(common[i * width + j + 1])
            };
        }
    }
    let (mut i, mut j, mut out) = (0, 0, Vec::new());
    while i < old.len() || j < new.len() {
        if i < old.len() && j < new.len() && old[i] == new[j] {
            out.push((Mark::Both, old[i]));
            (i, j) = (i + 1, j + 1);
        } else if j == new.len()
            || i < old.len() && common[(i + 1) * width + j] >= common[i * width + j + 1]
        {
            out.push((Mark::Before, old[i]));
            i += 1;
        } else {
            out.push((Mark::After, new[j]));
            j += 1;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_changed_is_shown_with_three_lines_around_it() {
        let before: String = (1..=20).map(|line| format!("{line}\n")).collect();
        let after = before.replace("10\n", "ten\nand a half\n");
        let expected = [
            "@@ line 7, then line 7 @@",
            " 7",
            " 8",
            " 9",
            "-10",
            "+ten",
            "+and a half",
            " 11",
            " 12",
            " 13",
        ];
        assert_eq!(unified(&before, &after), expected);
        assert!(unified(&before, &before).is_empty());
    }

    #[test]
    fn two_changes_far_apart_are_two_parts() {
        let before: String = (1..=40).map(|line| format!("{line}\n")).collect();
        let after = before.replace("\n5\n", "\nfive\n").replace("\n35\n", "\n");
        let shown = unified(&before, &after);
        let parts: Vec<_> = shown.iter().filter(|line| line.starts_with("@@")).collect();
        assert_eq!(
            parts,
            ["@@ line 2, then line 2 @@", "@@ line 32, then line 32 @@"]
        );
        assert!(shown.contains(&"-35".to_owned()));
    }

    #[test]
    fn texts_without_a_common_line_are_shown_whole() {
        assert_eq!(
            unified("a\nb", "c"),
            ["@@ line 1, then line 1 @@", "-a", "-b", "+c"]
        );
        assert_eq!(unified("", "c"), ["@@ line 1, then line 1 @@", "+c"]);
    }
}

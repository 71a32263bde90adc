//! Nothing committed names one person's machine: no absolute working path, no registry or mirror host.

use crate::repository::Repository;

/// Starts of paths that exist on one machine only; assembled so that this list is not its own breach.
const FOLDERS: [&str; 3] = [
    concat!("/wo", "rk/"),
    concat!("/ro", "ot/"),
    concat!("/ho", "me/"),
];
/// Hosts that a lock file or a package manager's own settings may name, and nothing else.
const REGISTRIES: [&str; 4] = [
    concat!("crates", ".io"),
    concat!("pypi", ".org"),
    concat!("pythonhosted", ".org"),
    concat!("npmjs", ".org"),
];

/// Lines that name a machine.
pub fn problems(repository: &Repository) -> Vec<String> {
    repository
        .texts()
        .filter(|(path, _)| !path.ends_with(".lock") && !path.ends_with("-lock.json"))
        .flat_map(|(path, text)| {
            text.lines()
                .enumerate()
                .map(move |(index, line)| (path, index + 1, line))
        })
        .filter_map(|(path, number, line)| {
            let name = FOLDERS
                .iter()
                .find(|folder| holds_absolute(line, folder))
                .or_else(|| REGISTRIES.iter().find(|host| line.contains(**host)))?;
            Some(format!(
                "{path}:{number}: names {name}, which is not everyone's"
            ))
        })
        .collect()
}

/// Whether the folder starts a path here, and is not a part further down in a longer one.
fn holds_absolute(line: &str, folder: &str) -> bool {
    line.match_indices(folder).any(|(at, _)| {
        let starts = !line[..at]
            .ends_with(|before: char| before.is_alphanumeric() || "._-/}".contains(before));
        let names = line[at + folder.len()..]
            .starts_with(|next: char| next.is_alphanumeric() || next == '.');
        starts && names
    })
}

#[cfg(test)]
mod tests {
    use super::{FOLDERS, REGISTRIES, problems};
    use crate::repository::Repository;

    #[test]
    fn a_path_of_one_machine_and_a_registry_are_named() {
        for folder in FOLDERS {
            let bad = format!("run {folder}someone/x\n");
            assert_eq!(
                problems(&Repository::of(&[("a.md", &bad)])).len(),
                1,
                "{folder}"
            );
            let inner = format!("run $dir{folder}x and target{folder}x\n");
            assert_eq!(
                problems(&Repository::of(&[("a.md", &inner)])).len(),
                0,
                "{folder}"
            );
        }
        for host in REGISTRIES {
            let text = format!("https://{host}/simple\n");
            assert_eq!(
                problems(&Repository::of(&[("a.toml", &text), ("a.lock", &text)])).len(),
                1,
                "{host}"
            );
        }
    }
}

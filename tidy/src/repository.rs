//! The files under the rules: what git tracks, and what it would track after `git add`.
//!
//! Reads everything once into memory, so that a rule is a pure function and a test can plant a breach. Files that are
//! not text are known by name only.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Largest file whose text is read, in bytes: anything longer is data, not something people wrote.
const TEXT_BYTES_MAX: u64 = 2 * 1024 * 1024;

/// All files by their path from the root, with `/` between the parts.
#[derive(Debug, Default)]
pub struct Repository {
    paths: BTreeSet<String>,
    texts: BTreeMap<String, String>,
}

impl Repository {
    /// Reads the repository this crate stands in.
    ///
    /// # Panics
    /// When git is missing or the crate stands in no repository.
    pub fn read() -> Repository {
        let root = Repository::root();
        let listing = Command::new("git")
            .args([
                "ls-files",
                "-z",
                "--cached",
                "--others",
                "--exclude-standard",
            ])
            .current_dir(&root)
            .output()
            .expect("git is needed to list the files");
        assert!(
            listing.status.success(),
            "git ls-files failed in {}",
            root.display()
        );

        let names = String::from_utf8(listing.stdout).expect("file names are UTF-8");
        let mut repository = Repository::default();
        for name in names.split_terminator('\0') {
            repository.read_file(&root, name);
        }
        repository
    }

    /// A repository of these files only, for planting a breach.
    pub fn of(files: &[(&str, &str)]) -> Repository {
        let mut repository = Repository::default();
        for (path, text) in files {
            repository.paths.insert((*path).to_owned());
            repository
                .texts
                .insert((*path).to_owned(), (*text).to_owned());
        }
        repository
    }

    /// The folder of the root manifest.
    pub fn root() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .parent()
            .expect("tidy stands one folder below the root")
            .to_owned()
    }

    fn read_file(&mut self, root: &Path, name: &str) {
        let path = root.join(name);
        // A file that is deleted but not yet removed from the index is no file.
        let Ok(metadata) = path.metadata() else {
            return;
        };
        self.paths.insert(name.to_owned());
        if metadata.is_file()
            && metadata.len() <= TEXT_BYTES_MAX
            && let Ok(text) = std::fs::read_to_string(&path)
        {
            self.texts.insert(name.to_owned(), text);
        }
    }

    /// The text of one file; `None` when it is absent or not text.
    pub fn text(&self, path: &str) -> Option<&str> {
        self.texts.get(path).map(String::as_str)
    }

    /// Every text file, in order of its path.
    pub fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.texts
            .iter()
            .map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// The text files whose name ends in one of these extensions.
    pub fn with_extension(&self, extensions: &[&str]) -> impl Iterator<Item = (&str, &str)> {
        self.texts().filter(|(path, _)| {
            extensions.iter().any(|extension| {
                path.rsplit_once('.')
                    .is_some_and(|(_, end)| end == *extension)
            })
        })
    }

    /// Every path, text or not.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.paths.iter().map(String::as_str)
    }

    /// Whether a file or a folder of this path exists.
    pub fn has(&self, path: &str) -> bool {
        let folder = format!("{}/", path.trim_end_matches('/'));
        self.paths.contains(path)
            || self
                .paths
                .range(folder.clone()..)
                .next()
                .is_some_and(|next| next.starts_with(&folder))
    }
}

#[cfg(test)]
mod tests {
    use super::Repository;

    #[test]
    fn a_folder_exists_when_a_file_stands_in_it() {
        let repository = Repository::of(&[("docs/wire.md", "")]);
        assert!(repository.has("docs"));
        assert!(repository.has("docs/"));
        assert!(repository.has("docs/wire.md"));
        assert!(!repository.has("doc"));
        assert!(!repository.has("docs/wire"));
    }

    #[test]
    fn this_crate_is_part_of_what_is_read() {
        let repository = Repository::read();
        assert!(repository.text("tidy/src/repository.rs").is_some());
        assert!(!repository.has("target"));
    }
}

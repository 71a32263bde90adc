//! Directories that commands make: what stands in the way is said in words, and what others put there is left alone.
//!
//! Called by `up`, `node init` and `certs`.

use crate::error::CliError;
use std::io::{Error, ErrorKind};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// Names of files that an error shows; the rest is counted.
const SHOWN_MAX: usize = 3;

/// What a directory for a new group may hold: what file systems put there, and certificates, which are made before it or with it.
const MAY_BE_THERE: [&str; 2] = ["lost+found", "certs"];

/// Makes a directory that only its owner can read, with those above it; its full path.
pub(crate) fn make(dir: &Path) -> Result<PathBuf, CliError> {
    let mut builder = std::fs::DirBuilder::new();
    builder
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .and_then(|()| dir.canonicalize())
        .map_err(|error| refused(dir, &error))
}

/// Why a directory cannot be made or read, and what to do.
pub(crate) fn refused(dir: &Path, error: &Error) -> CliError {
    let shown = dir.display();
    let text = match error.kind() {
        ErrorKind::AlreadyExists => {
            let text = format!("{shown} is a file, and a directory is needed");
            return CliError::conflict(text).advise("name another --dir, or move the file away");
        }
        ErrorKind::NotADirectory => {
            format!("{shown} cannot be a directory, because a part of its path is a file")
        }
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            format!("this user may not write to {shown}, or may not make it")
        }
        ErrorKind::NotFound | ErrorKind::Unsupported => {
            format!("{shown} cannot be made, because the file system there takes no directories")
        }
        _ => format!("{shown} cannot be made: {error}"),
    };
    CliError::failed(format!("{text}: name another --dir"))
        .advise("name another --dir, below a directory that this user may write to")
}

/// Refuses a directory for a new group, unless it is empty: what lies there is not the group's, or it is what is left of one.
pub(crate) fn refuse_used(dir: &Path) -> Result<(), CliError> {
    let entries = std::fs::read_dir(dir).map_err(|error| refused(dir, &error))?;
    let names = entries.filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into()));
    let names: Vec<String> = names.collect();
    let mut others: Vec<&str> = (names.iter().map(String::as_str))
        .filter(|name| !is_of_group(name) && !MAY_BE_THERE.contains(name))
        .collect();
    others.sort_unstable();
    let shown = dir.display();
    if !others.is_empty() {
        let more = match others.len().saturating_sub(SHOWN_MAX) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        others.truncate(SHOWN_MAX);
        let others = others.join(", ");
        return Err(CliError::conflict(format!(
            "{shown} holds what no group has made: {others}{more}; a group needs a directory of its own, so nothing was changed"
        ))
        .advise("name a --dir that is empty or does not exist"));
    }
    if names.iter().any(|name| is_of_group(name)) {
        return Err(CliError::conflict(format!(
            "{shown} holds parts of a group, and node-1.toml, which is made last, is not among them: no node can start there. A quorate up, \
             restore or recover that was interrupted leaves such parts, and nothing in them has ever run; so does whoever removes \
             node-1.toml, and then they may hold the only state"
        ))
        .advise("put node-1.toml back if it was there, else remove the directory and say the interrupted command again"));
    }
    Ok(())
}

/// Whether `up` gives a node's files such a name: node-1, node-1.toml, node-1.log, node-1.log.1.
fn is_of_group(name: &str) -> bool {
    let Some(rest) = name.strip_prefix("node-") else {
        return false;
    };
    let ending = rest.trim_start_matches(|letter: char| letter.is_ascii_digit());
    let is_known = matches!(ending, "" | ".toml" | ".toml.tmp") || ending.starts_with(".log");
    ending.len() < rest.len() && is_known
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_group_makes_is_taken_for_its_own() {
        for name in [
            "node-1",
            "node-12.toml",
            "node-2.toml.tmp",
            "node-3.log",
            "node-3.log.1",
        ] {
            assert!(is_of_group(name), "{name}");
        }
        for name in [
            "",
            "node-",
            "node-x",
            "node-1.txt",
            "bank.py",
            "certs.pem",
            ".git",
        ] {
            assert!(!is_of_group(name), "{name}");
        }
    }

    #[test]
    fn a_directory_of_a_new_group_holds_nothing_but_what_a_file_system_puts_there() {
        let dir = tempfile::tempdir().expect("there is room");
        for name in MAY_BE_THERE {
            std::fs::create_dir(dir.path().join(name)).expect("it is new");
        }
        refuse_used(dir.path()).expect("nobody has used it");
        std::fs::create_dir(dir.path().join("node-1")).expect("it is new");
        let half = refuse_used(dir.path()).expect_err("a group was begun there");
        assert!(
            half.text.contains(
                "no node can start there. A quorate up, restore or recover that was interrupted"
            ),
            "{half}"
        );
        for name in ["a", "b", "c", "d", "e"] {
            std::fs::write(dir.path().join(name), "").expect("there is room");
        }
        let used = refuse_used(dir.path()).expect_err("files of others are there");
        assert!(used.text.contains("a, b, c and 2 more;"), "{used}");
        assert_eq!((half.code, used.code), (7, 7));
    }

    #[test]
    fn what_stands_in_the_way_is_said_without_numbers_of_errors() {
        let dir = tempfile::tempdir().expect("there is room");
        let file = dir.path().join("file");
        std::fs::write(&file, "").expect("there is room");
        for (path, words) in [
            (file.clone(), "is a file, and a directory is needed"),
            (file.join("below"), "a part of its path is a file"),
            ("/proc/quorate".into(), "takes no directories"),
        ] {
            let told = make(&path).expect_err("it cannot be made");
            assert!(told.text.contains(words), "{told}");
            assert!(!told.text.contains("os error"), "{told}");
        }
    }
}

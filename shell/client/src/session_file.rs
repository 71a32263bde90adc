//! The file in which a client keeps the secret of its session, so that the next process resumes the session.
//!
//! Whoever reads the file can use the session: it is its user's alone, and its content is told nobody. A client locks it while it
//! is open, so on one machine no process resumes the session of another one that lives. The system drops the lock when a process
//! ends, however it does.

use crate::ConnectError;
use crate::driver::random;
use quorate_types::Secret;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// What stands before the secret.
const HEAD: &str = "quorate session 1 ";

/// More than a file of this kind has.
const BYTES_MAX: u64 = 256;

/// Permissions of everybody but the owner.
const OTHERS: u32 = 0o077;

/// The file, locked.
#[derive(Debug)]
pub struct SessionFile {
    path: PathBuf,
    /// `None` once the client has ended.
    kept: Mutex<Option<Kept>>,
}

#[derive(Debug)]
struct Kept {
    /// Holds the lock.
    _locked: File,
    secret: Secret,
}

impl SessionFile {
    /// Locks the file at `path`, which is made with a new secret where there is none.
    ///
    /// # Errors
    /// [`ConnectError::SessionInUse`] while another client has it open, [`ConnectError::Unreadable`] when it is no such file, or one
    /// that others may read, [`ConnectError::System`] when the system gives no randomness.
    pub fn open(path: &Path) -> Result<SessionFile, ConnectError> {
        let file = SessionFile {
            path: path.to_owned(),
            kept: Mutex::new(None),
        };
        let kept = match file.read()? {
            Some(kept) => kept,
            None => {
                let drawn = random().map_err(|why| ConnectError::System(why.to_string()))?;
                let made = file.write(Secret::new(drawn), Place::New);
                match made {
                    Ok(kept) => kept,
                    // Another process was faster.
                    Err(why) if why.kind() == std::io::ErrorKind::AlreadyExists => {
                        return Err(file.in_use());
                    }
                    Err(why) => return Err(file.unreadable(&why)),
                }
            }
        };
        *file.kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(kept);
        Ok(file)
    }

    /// The secret in it; `None` once it is released.
    pub(crate) fn secret(&self) -> Option<Secret> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.as_ref().map(|kept| kept.secret)
    }

    /// The client asks for a session with this secret next: the file has it before a node does.
    pub(crate) fn keep(&self, secret: Secret) -> std::io::Result<()> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.as_ref().is_some_and(|kept| kept.secret != secret) {
            *kept = Some(self.write(secret, Place::Instead)?);
        }
        Ok(())
    }

    /// The client has ended: another one may open the file.
    pub(crate) fn release(&self) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        *kept = None;
    }

    /// The file's path, for messages.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn read(&self) -> Result<Option<Kept>, ConnectError> {
        let mut file = match File::open(&self.path) {
            Ok(file) => file,
            Err(why) if why.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(why) => return Err(self.unreadable(&why)),
        };
        if !lock(&file).map_err(|why| self.unreadable(&why))? {
            return Err(self.in_use());
        }
        let metadata = file.metadata().map_err(|why| self.unreadable(&why))?;
        // Between opening and locking it a client may have put another file in its place.
        let is_there = std::fs::metadata(&self.path)
            .is_ok_and(|there| (there.dev(), there.ino()) == (metadata.dev(), metadata.ino()));
        if !is_there {
            return Err(self.in_use());
        }
        if metadata.mode() & OTHERS != 0 {
            let why = "others may read it, and use the session: chmod 600";
            return Err(self.unreadable(&why));
        }
        let mut text = String::new();
        let read = (&mut file).take(BYTES_MAX).read_to_string(&mut text);
        read.map_err(|why| self.unreadable(&why))?;
        let secret = secret_in(&text).ok_or_else(|| {
            self.unreadable(&"it is not the file of a session: name another one, or remove it")
        })?;
        Ok(Some(Kept {
            _locked: file,
            secret,
        }))
    }

    /// Puts a file with this secret into its place, whole and locked.
    fn write(&self, secret: Secret, place: Place) -> std::io::Result<Kept> {
        let mut name = self.path.clone().into_os_string();
        name.push(format!(".{}", std::process::id()));
        let draft = PathBuf::from(name);
        let _ = std::fs::remove_file(&draft);
        let mut options = OpenOptions::new();
        let mut file = options
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&draft)?;
        let written = put(&mut file, secret).and_then(|()| match place {
            Place::New => std::fs::hard_link(&draft, &self.path),
            Place::Instead => std::fs::rename(&draft, &self.path),
        });
        if !matches!((place, &written), (Place::Instead, Ok(()))) {
            let _ = std::fs::remove_file(&draft);
        }
        written.map(|()| Kept {
            _locked: file,
            secret,
        })
    }

    fn in_use(&self) -> ConnectError {
        ConnectError::SessionInUse {
            path: self.path.clone(),
        }
    }

    fn unreadable(&self, why: &dyn std::fmt::Display) -> ConnectError {
        ConnectError::Unreadable {
            path: self.path.clone(),
            why: why.to_string(),
        }
    }
}

/// Where a file is put.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    /// Where there is none.
    New,
    /// Where the present one is.
    Instead,
}

/// Locks a file; says whether nobody else has it.
fn lock(file: &File) -> std::io::Result<bool> {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Locks a new file, and writes a secret into it.
fn put(file: &mut File, secret: Secret) -> std::io::Result<()> {
    lock(file)?;
    writeln!(file, "{HEAD}{}", hexadecimal(secret.bytes()))?;
    file.sync_all()
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn secret_in(text: &str) -> Option<Secret> {
    let digits = text.strip_prefix(HEAD)?.strip_suffix('\n')?;
    let is_hexadecimal = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    if digits.len() != 2 * Secret::BYTES || !is_hexadecimal {
        return None;
    }
    let mut bytes = [0; Secret::BYTES];
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&digits[2 * index..2 * index + 2], 16).ok()?;
    }
    Some(Secret::new(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_next_client_finds_the_newest_secret_and_no_two_have_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("session");
        let first = SessionFile::open(&path).unwrap();
        let drawn = first.secret().unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        let in_use = ConnectError::SessionInUse { path: path.clone() };
        assert_eq!(SessionFile::open(&path).unwrap_err(), in_use);
        first.keep(drawn.next()).unwrap();
        assert_eq!(SessionFile::open(&path).unwrap_err(), in_use);
        drop(first);
        let second = SessionFile::open(&path).unwrap();
        assert_eq!(second.secret(), Some(drawn.next()));
        second.release();
        assert_eq!(second.secret(), None);
        assert!(SessionFile::open(&path).is_ok());
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_file_that_others_may_read_or_that_is_another_one_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("session");
        drop(SessionFile::open(&path).unwrap());
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        let refused = SessionFile::open(&path).unwrap_err().to_string();
        assert!(refused.contains("chmod 600"), "{refused}");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        std::fs::write(&path, "quorate session 1 zz\n").unwrap();
        let refused = SessionFile::open(&path).unwrap_err().to_string();
        assert!(refused.contains("not the file of a session"), "{refused}");
    }

    #[test]
    fn no_secret_is_printed() {
        let directory = tempfile::tempdir().unwrap();
        let file = SessionFile::open(&directory.path().join("session")).unwrap();
        let secret = hexadecimal(file.secret().unwrap().bytes());
        assert!(!format!("{file:?}").contains(&secret));
    }
}

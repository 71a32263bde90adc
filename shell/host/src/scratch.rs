//! Images that a snapshot process has written: read and digested on a side thread.

use crate::image::{ObjectImage, images_list};
use crate::limits::ENCODER_NICENESS;
use bytes::Bytes;
use mio::Waker;
use quorate_types::{ObjectId, PartsList, Slot};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

/// Images by slot, or why there are none.
pub(crate) struct Loaded {
    /// Which of the images it is.
    number: u64,
    pub(crate) slot: Slot,
    pub(crate) outcome: Result<(Vec<ObjectImage>, PartsList), String>,
}

/// Reads image files. At most as many at once as the host process makes.
pub(crate) struct Scratch {
    directory: PathBuf,
    loaded: Receiver<Loaded>,
    sender: Sender<Loaded>,
    waker: Arc<Waker>,
    /// Number and slot of each image that is being read, of states that stand.
    outstanding: Vec<(u64, Slot)>,
    /// How many were begun.
    begun: u64,
}

impl Scratch {
    /// Makes the directory, without what an earlier host may have left in it.
    pub(crate) fn new(directory: &Path, waker: Arc<Waker>) -> std::io::Result<Scratch> {
        match std::fs::remove_dir_all(directory) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        std::fs::DirBuilder::new().mode(0o700).create(directory)?;
        let (sender, loaded) = channel();
        Ok(Scratch {
            directory: directory.to_owned(),
            loaded,
            sender,
            waker,
            outstanding: Vec::new(),
            begun: 0,
        })
    }

    /// Where the process `id` shall write the image of `slot`.
    pub(crate) fn path(&self, id: u32, slot: Slot) -> PathBuf {
        self.directory.join(format!("image-{id}-{}.tmp", slot.0))
    }

    /// Begins to read the image of `slot`, and removes the file.
    pub(crate) fn load(&mut self, id: u32, slot: Slot) -> std::io::Result<()> {
        let number = self.begun;
        let (path, sender, waker) = (self.path(id, slot), self.sender.clone(), self.waker.clone());
        std::thread::Builder::new()
            .name("quorate-images".to_owned())
            .spawn(move || {
                let thread = Some(rustix::thread::gettid());
                // A refusal only means that digesting competes with calls at equal priority.
                let _ = rustix::process::setpriority_process(thread, ENCODER_NICENESS);
                let outcome = read(&path).map_err(|error| format!("{}: {error}", path.display()));
                // The file has been read or is useless.
                let _ = std::fs::remove_file(&path);
                // Fails only when the host is gone.
                let _ = sender.send(Loaded {
                    number,
                    slot,
                    outcome,
                });
                let _ = waker.wake();
            })?;
        self.begun += 1;
        self.outstanding.push((number, slot));
        Ok(())
    }

    /// Removes what an ended process left.
    pub(crate) fn discard(&self, id: u32, slot: Slot) {
        // There may be nothing to remove.
        let _ = std::fs::remove_file(self.path(id, slot));
    }

    pub(crate) fn take(&mut self) -> Option<Loaded> {
        while let Ok(loaded) = self.loaded.try_recv() {
            let is_it = |(number, _): &(u64, Slot)| *number == loaded.number;
            if let Some(place) = self.outstanding.iter().position(is_it) {
                self.outstanding.swap_remove(place);
                return Some(loaded);
            }
        }
        None
    }

    /// States after `after` are undone: images of them that are being read are of no use.
    pub(crate) fn undo(&mut self, after: Slot) {
        self.outstanding.retain(|(_, slot)| *slot <= after);
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed is removed at the next start.
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

fn read(path: &Path) -> std::io::Result<(Vec<ObjectImage>, PartsList)> {
    let file = Bytes::from(std::fs::read(path)?);
    let images = parse(&file).ok_or_else(|| {
        std::io::Error::new(std::io::ErrorKind::InvalidData, "the image is cut short")
    })?;
    let parts = images_list(&images);
    Ok((images, parts))
}

/// Count (4 bytes), then per object its number (4), its image's length (8) and its image.
fn parse(file: &Bytes) -> Option<Vec<ObjectImage>> {
    let u32_at = |at: usize| {
        let bytes = file.get(at..at + 4)?.try_into().ok()?;
        Some(u32::from_le_bytes(bytes))
    };
    let count = u32_at(0)?;
    let mut at = 4;
    let mut images = Vec::new();
    for _ in 0..count {
        let object = ObjectId(u32_at(at)?);
        let length = u64::from_le_bytes(file.get(at + 4..at + 12)?.try_into().ok()?);
        let start = at + 12;
        let end = start.checked_add(usize::try_from(length).ok()?)?;
        if end > file.len() {
            return None;
        }
        images.push(ObjectImage {
            object,
            image: file.slice(start..end).into(),
        });
        at = end;
    }
    (at == file.len()).then_some(images)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mio::{Events, Poll, Token};
    use std::time::{Duration, Instant};

    const PATIENCE: Duration = Duration::from_secs(10);

    /// The slots of the next `count` images that are there.
    fn taken(scratch: &mut Scratch, poll: &mut Poll, count: usize) -> Vec<u64> {
        let (began, mut slots) = (Instant::now(), Vec::new());
        while slots.len() < count {
            slots.extend(scratch.take().map(|loaded| loaded.slot.0));
            assert!(began.elapsed() < PATIENCE, "only {slots:?}");
            poll.poll(
                &mut Events::with_capacity(1),
                Some(Duration::from_millis(10)),
            )
            .unwrap();
        }
        slots.sort_unstable();
        slots
    }

    #[test]
    fn an_image_stands_unless_its_own_state_is_undone_while_it_is_read() {
        let name = format!("quorate-scratch-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        let mut poll = Poll::new().unwrap();
        let waker = Arc::new(Waker::new(poll.registry(), Token(0)).unwrap());
        let mut scratch = Scratch::new(&directory, waker).unwrap();
        let load = |scratch: &mut Scratch, slot: u64| {
            std::fs::write(scratch.path(1, Slot(slot)), 0u32.to_le_bytes()).unwrap();
            scratch.load(1, Slot(slot)).unwrap();
        };
        load(&mut scratch, 2);
        load(&mut scratch, 4);
        scratch.undo(Slot(3));
        load(&mut scratch, 9);
        scratch.undo(Slot(12));
        assert_eq!(taken(&mut scratch, &mut poll, 2), [2, 9]);
        load(&mut scratch, 13);
        assert_eq!(
            taken(&mut scratch, &mut poll, 1),
            [13],
            "of slot 4 none comes"
        );
    }
}

//! Images of the objects' state: taken over by a process, and made by one.

use super::{Life, OtherProcess};
use crate::event::HostEvent;
use crate::image::ObjectImage;
use crate::limits::WORK_LOG_BYTES_MAX;
use crate::work_log::HostWork;
use quorate_types::{PartsList, Slot};
use std::time::Instant;

impl OtherProcess {
    pub(super) fn restored(&mut self, slot: Slot) {
        if matches!(self.life, Life::Restoring { .. }) {
            if let Life::Restoring { process } = std::mem::replace(&mut self.life, Life::Over) {
                self.up(process);
            }
            return;
        }
        match self.work_log.answer() {
            Some((
                HostWork::Restore {
                    slot: asked,
                    images,
                },
                is_news,
            )) if *asked == slot => {
                let images = images.clone();
                if is_news {
                    self.confirmed = slot;
                    self.events.push(HostEvent::Restored { slot });
                }
                self.work_log.rebase(slot, images);
                self.forget_left_out();
            }
            _ => self.out_of_step(),
        }
    }

    pub(super) fn restore_failed(&mut self, slot: Slot, reason: String) {
        if matches!(self.life, Life::Restoring { .. }) {
            self.life = Life::Over;
            self.events.push(HostEvent::Down {
                reason: format!("its own image of {slot} cannot be restored: {reason}"),
                call: None,
                is_final: true,
            });
            return;
        }
        match self.work_log.answer() {
            Some((HostWork::Restore { .. }, _)) => {
                self.work_log.forget_restore();
                self.events.push(HostEvent::RestoreFailed { slot, reason });
            }
            _ => self.out_of_step(),
        }
    }

    pub(super) fn imaged(&mut self, slot: Slot, images: Vec<ObjectImage>, parts: PartsList) {
        let Some(is_private) = self.work_log.snapshot_ended(slot) else {
            return;
        };
        if is_private {
            self.catching_up.image_ended(Instant::now());
        }
        // The node asks for images of decided states only.
        if is_private && slot > self.confirmed {
            self.undecided = Some((slot, images));
            return;
        }
        self.work_log.rebase(slot, images.clone());
        self.forget_left_out();
        if is_private {
            self.is_shortening = false;
            self.shorten_at = self.work_log.weight() + WORK_LOG_BYTES_MAX;
        } else {
            self.events.push(HostEvent::Imaged {
                slot,
                images,
                parts,
            });
        }
    }

    /// Everything up to `slot` is decided: an image of such a state may be what a new process begins with.
    pub(crate) fn confirm(&mut self, slot: Slot) {
        self.confirmed = slot;
        if let Some((at, images)) = self.undecided.take_if(|(at, _)| *at <= slot) {
            self.work_log.rebase(at, images);
            self.forget_left_out();
            self.is_shortening = false;
            self.shorten_at = self.work_log.weight() + WORK_LOG_BYTES_MAX;
        }
    }

    /// Calls before the base image are never sent again.
    pub(super) fn forget_left_out(&mut self) {
        if let Some((base, _)) = self.work_log.base() {
            self.left_out.retain(|(slot, _), _| slot > base);
        }
    }

    pub(super) fn image_failed(&mut self, slot: Slot, reason: String) {
        if let Some(id) = self.process_id() {
            self.scratch.discard(id, slot);
        }
        match self.work_log.snapshot_ended(slot) {
            Some(false) => self.events.push(HostEvent::ImageFailed { slot, reason }),
            Some(true) => {
                self.catching_up.image_ended(Instant::now());
                self.is_shortening = false;
                self.shorten_at = self.work_log.weight() + WORK_LOG_BYTES_MAX;
            }
            None => {}
        }
    }
}

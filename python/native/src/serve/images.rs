//! Images of the objects: written by forked processes, and taken over.

use super::{Server, due_frame, outside_frame};
use crate::frames::{FrameBody, reply};
use crate::turn;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};
use quorate_types::Agenda;
use std::collections::{BTreeMap, HashMap};

impl<'py> Server<'py> {
    pub(super) fn snapshot(&mut self, body: &mut FrameBody<'_>) -> PyResult<()> {
        let slot = body.u64()?;
        let path = String::from_utf8_lossy(body.0).into_owned();
        // What was answered so far must not wait for the fork.
        self.flush()?;
        let objects: HashMap<u32, Bound<'py, PyAny>> = self.objects.clone();
        let py = self.host.py();
        let heads = objects
            .keys()
            .map(|number| (*number, PyBytes::new(py, &turn::head(*number))));
        let heads: HashMap<u32, Bound<'py, PyBytes>> = heads.collect();
        match self.host.call_method1("freeze", (objects, heads, path)) {
            Ok(pipe) => match pipe.extract()? {
                Some(fd) => self.children.push((slot, fd)),
                None => self.outbox.note(reply::IMAGED, slot, ""),
            },
            Err(error) => {
                self.outbox
                    .note(reply::IMAGE_FAILED, slot, &error.to_string());
            }
        }
        Ok(())
    }

    /// Reports snapshot processes that have ended.
    pub(super) fn reap(&mut self) -> PyResult<()> {
        let mut index = 0;
        while index < self.children.len() {
            let (slot, fd) = self.children[index];
            let ended: Option<String> = self.host.call_method1("frozen", (fd,))?.extract()?;
            match ended {
                None => {
                    index += 1;
                    continue;
                }
                Some(failure) if failure.is_empty() => self.outbox.note(reply::IMAGED, slot, ""),
                Some(failure) => self.outbox.note(reply::IMAGE_FAILED, slot, &failure),
            }
            self.children.remove(index);
        }
        Ok(())
    }

    pub(super) fn restore(&mut self, body: &mut FrameBody<'_>) -> PyResult<()> {
        let py = self.host.py();
        let slot = body.u64()?;
        let images = PyList::empty(py);
        let mut agendas = BTreeMap::new();
        for _ in 0..body.u32()? {
            let object = body.u32()?;
            let length = body.u64()? as usize;
            let mut image = body.bytes(length)?;
            let Ok(agenda) = Agenda::take_from(&mut image) else {
                let text = format!("the image of object {object} does not begin with its agenda");
                self.outbox.note(reply::RESTORE_FAILED, slot, &text);
                return Ok(());
            };
            agendas.insert(object, agenda);
            images.append((object, PyBytes::new(py, image)))?;
        }
        match self.host.call_method1("restore", (images,)) {
            Ok(objects) => {
                self.take_objects(objects.extract()?)?;
                self.waiters = self.host.call_method0("waiters")?.extract()?;
                turn::restored(agendas);
                if let Some(due) = turn::due_news(true) {
                    self.outbox.0.extend_from_slice(&due_frame(due).0);
                }
                if turn::outside::take_outside() {
                    self.outbox.0.extend_from_slice(&outside_frame().0);
                }
                self.outbox.note(reply::RESTORED, slot, "");
            }
            Err(error) => self
                .outbox
                .note(reply::RESTORE_FAILED, slot, &error.to_string()),
        }
        Ok(())
    }
}

//! Objects that come and go while the group runs: the directory, an object itself, says which.

use super::Server;
use crate::turn::{self, Wakes};
use crate::{encode, numbers};
use pyo3::prelude::*;
use quorate_types::ObjectId;
use std::collections::{HashMap, HashSet};

impl<'py> Server<'py> {
    /// After a step of an object: takes over what the directory has made and dropped in it. Calls that wait at what is dropped are
    /// answered.
    #[inline]
    pub(super) fn follow_directory(&mut self, object: u32, answers: &mut Wakes) -> PyResult<()> {
        if object == ObjectId::DIRECTORY.0 {
            self.take_changes(answers)?;
        }
        Ok(())
    }

    #[cold]
    fn take_changes(&mut self, answers: &mut Wakes) -> PyResult<()> {
        type Changes<'py> = (
            HashMap<u32, Bound<'py, PyAny>>,
            HashMap<u32, HashSet<String>>,
            Vec<u32>,
        );
        let changes = self.host.call_method0("take_changes")?;
        let (made, waiters, dropped): Changes<'py> = changes.extract()?;
        self.waiters.extend(waiters);
        if !made.is_empty() {
            let numbers: Vec<u32> = made.keys().copied().collect();
            let methods = self.host.call_method1("undo_methods", (numbers,))?;
            self.undoing.objects_made(methods.extract()?);
        }
        for (number, object) in made {
            numbers::touch(&object);
            turn::object_made(number, object.clone().unbind());
            self.objects.insert(number, object);
        }
        for number in dropped {
            self.objects.remove(&number);
            self.waiters.remove(&number);
            self.undoing.dropped(number);
            let told = self.host.call_method0("dropped")?;
            let told = encode::value(&told, "exception")?;
            for id in turn::object_dropped(number) {
                answers.push(turn::answer_of(id, true, &told));
            }
        }
        Ok(())
    }
}

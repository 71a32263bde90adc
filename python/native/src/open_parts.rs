//! What a walker has begun and not ended: a container, an instance, the content of a tag.

use crate::bad_value::BadValue;
use crate::layout::*;
use crate::walker::{Walker, changed};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyIterator, PyList, PyTuple};
use std::vec::IntoIter;

type Inner<'py> = Result<Option<Bound<'py, PyAny>>, Box<BadValue>>;

/// A thing of which some is still to be written.
pub(crate) enum OpenPart<'py> {
    Tuple {
        tuple: Bound<'py, PyTuple>,
        next: usize,
    },
    List {
        list: Bound<'py, PyList>,
        next: usize,
        count: usize,
    },
    Entries(Entries<'py>),
    /// Elements of a set in a state, in the order of the set.
    Laid(IntoIter<Bound<'py, PyAny>>),
    Sorted(Box<Sorted<'py>>),
    /// What an iterator gives, as a list. It is drawn while it is written, so that an endless one ends at a limit.
    Drawn {
        items: Bound<'py, PyIterator>,
        count: u64,
        outer: Vec<u8>,
    },
    /// The content of a tag: an array whose places are not named in errors.
    Parts {
        parts: Bound<'py, PyTuple>,
        next: usize,
        /// Whether a dict in it, which is the last then, is of fields.
        has_fields: bool,
    },
    /// An instance, with arguments until they are written.
    Instance {
        object: Bound<'py, PyAny>,
        arguments: Option<Bound<'py, PyAny>>,
        number: Option<i64>,
        state: Bound<'py, PyAny>,
    },
    /// What stands in place of something else.
    One(Option<Bound<'py, PyAny>>),
}

impl<'py> OpenPart<'py> {
    /// Writes on, up to the next part that has something inside; nothing is left where it returns none.
    pub(crate) fn next(&mut self, walker: &mut Walker<'py>, out: &mut Vec<u8>) -> Inner<'py> {
        match self {
            OpenPart::Tuple { tuple, next } => {
                while *next < tuple.len() {
                    let item = tuple.get_item(*next)?;
                    *next += 1;
                    if !walker.put_plain(out, &item)? {
                        return Ok(Some(item));
                    }
                }
                Ok(None)
            }
            OpenPart::List { list, next, count } => {
                while *next < *count {
                    let Ok(item) = list.get_item(*next) else {
                        *next = 0;
                        return Err(changed());
                    };
                    *next += 1;
                    if !walker.put_plain(out, &item)? {
                        return Ok(Some(item));
                    }
                }
                *next = 0;
                walker.check_unchanged(list.len() == *count)?;
                Ok(None)
            }
            OpenPart::Entries(entries) => entries.next(walker, out),
            OpenPart::Laid(elements) => {
                for element in elements {
                    walker.check_element(&element)?;
                    if !walker.put_plain(out, &element)? {
                        return Ok(Some(element));
                    }
                }
                Ok(None)
            }
            OpenPart::Sorted(sorted) => sorted.next(walker, out),
            OpenPart::Drawn {
                items,
                count,
                outer,
            } => {
                for item in items {
                    let item = item?;
                    *count += 1;
                    if !walker.put_plain(out, &item)? {
                        return Ok(Some(item));
                    }
                }
                let items = std::mem::replace(out, std::mem::take(outer));
                put_head(out, ARRAY, *count);
                out.extend_from_slice(&items);
                Ok(None)
            }
            OpenPart::Parts { .. } => self.next_part(walker, out),
            OpenPart::Instance { .. } => self.next_of_instance(walker, out),
            OpenPart::One(one) => match one.take() {
                Some(one) if !walker.put_plain(out, &one)? => Ok(Some(one)),
                _ => Ok(None),
            },
        }
    }

    fn next_part(&mut self, walker: &mut Walker<'py>, out: &mut Vec<u8>) -> Inner<'py> {
        let OpenPart::Parts {
            parts,
            next,
            has_fields,
        } = self
        else {
            return Ok(None);
        };
        while *next < parts.len() {
            let part = parts.get_item(*next)?;
            *next += 1;
            if let Ok(fields) = part.cast_exact::<PyDict>()
                && *has_fields
            {
                debug_assert_eq!(*next, parts.len(), "fields stand last");
                *self = OpenPart::Entries(Entries::of_fields(out, fields));
                return self.next(walker, out);
            }
            if !walker.put_plain(out, &part)? {
                return Ok(Some(part));
            }
        }
        Ok(None)
    }

    /// Arguments, then the number; from then on the instance is known, and its state follows.
    fn next_of_instance(&mut self, walker: &mut Walker<'py>, out: &mut Vec<u8>) -> Inner<'py> {
        let OpenPart::Instance {
            object,
            arguments,
            number,
            state,
        } = self
        else {
            return Ok(None);
        };
        if let Some(arguments) = arguments.take()
            && !walker.put_plain(out, &arguments)?
        {
            return Ok(Some(arguments));
        }
        if let Some(number) = number {
            put_int(out, *number);
        }
        walker.remember(object);
        *self = match state.cast_exact::<PyDict>() {
            // Fields are named like attributes in errors, and their dict is the instance's own.
            Ok(fields) => OpenPart::Entries(Entries::of_fields(out, fields)),
            Err(_) => OpenPart::One(Some(state.clone())),
        };
        self.next(walker, out)
    }

    /// The part that is being written, as a step of a path.
    pub(crate) fn step(&self) -> Option<String> {
        match self {
            OpenPart::Tuple { next, .. } | OpenPart::List { next, .. } => {
                next.checked_sub(1).map(|index| format!("[{index}]"))
            }
            OpenPart::Drawn { count, .. } => Some(format!("[{}]", count.saturating_sub(1))),
            OpenPart::Entries(entries) => entries.step(),
            OpenPart::Laid(_) | OpenPart::Sorted(_) => Some("{}".to_owned()),
            OpenPart::Parts { .. } | OpenPart::Instance { .. } | OpenPart::One(_) => None,
        }
    }

    /// What the buffer had before this took it for its parts.
    pub(crate) fn into_outer(self) -> Option<Vec<u8>> {
        match self {
            OpenPart::Sorted(sorted) => Some(sorted.outer),
            OpenPart::Drawn { outer, .. } => Some(outer),
            OpenPart::Tuple { .. }
            | OpenPart::List { .. }
            | OpenPart::Entries(_)
            | OpenPart::Laid(_)
            | OpenPart::Parts { .. }
            | OpenPart::Instance { .. }
            | OpenPart::One(_) => None,
        }
    }
}

type Entry<'py> = (Bound<'py, PyAny>, Bound<'py, PyAny>);

/// Keys and what they stand for.
pub(crate) struct Entries<'py> {
    /// The dict and how many it had; none for fields.
    dict: Option<(Bound<'py, PyDict>, usize)>,
    /// Collected first: what is in a dict may change the dict while it is written.
    entries: IntoIter<Entry<'py>>,
    /// The key that was written last, or is being written while its value waits.
    key: Option<Bound<'py, PyAny>>,
    value: Option<Bound<'py, PyAny>>,
}

impl<'py> Entries<'py> {
    pub(crate) fn of_dict(out: &mut Vec<u8>, dict: &Bound<'py, PyDict>) -> Entries<'py> {
        Entries {
            dict: Some((dict.clone(), dict.len())),
            ..Entries::of_fields(out, dict)
        }
    }

    pub(crate) fn of_fields(out: &mut Vec<u8>, fields: &Bound<'py, PyDict>) -> Entries<'py> {
        let entries: Vec<_> = fields.iter().collect();
        put_head(out, MAP, entries.len() as u64);
        Entries {
            dict: None,
            entries: entries.into_iter(),
            key: None,
            value: None,
        }
    }

    fn next(&mut self, walker: &mut Walker<'py>, out: &mut Vec<u8>) -> Inner<'py> {
        if let Some(value) = self.value.take()
            && !walker.put_plain(out, &value)?
        {
            return Ok(Some(value));
        }
        while let Some((key, value)) = self.entries.next() {
            let is_plain = walker.put_plain(out, &key);
            if !matches!(is_plain, Ok(true)) {
                self.value = Some(value);
                self.key = Some(key);
                return is_plain.map(|_| self.key.clone());
            }
            let is_plain = walker.put_plain(out, &value);
            if !matches!(is_plain, Ok(true)) {
                self.key = Some(key);
                return is_plain.map(|_| Some(value));
            }
        }
        self.key = None;
        if let Some((dict, count)) = &self.dict {
            walker.check_unchanged(dict.len() == *count)?;
        }
        Ok(None)
    }

    fn step(&self) -> Option<String> {
        let key = self.key.as_ref()?;
        match (&self.dict, &self.value) {
            (None, Some(_)) => None,
            (None, None) => Some(format!(".{key}")),
            (Some((_, count)), Some(_)) => Some(format!("{{{}}}", count - self.entries.len() - 1)),
            (Some((_, count)), None) => {
                let index = count - self.entries.len() - 1;
                let key = key
                    .repr()
                    .map_or_else(|_| index.to_string(), |r| r.to_string());
                Some(format!("[{key}]"))
            }
        }
    }
}

/// Elements in the order of their encodings: equal sets have equal bytes.
pub(crate) struct Sorted<'py> {
    elements: IntoIter<Bound<'py, PyAny>>,
    parts: Vec<Vec<u8>>,
    outer: Vec<u8>,
}

impl<'py> Sorted<'py> {
    /// Takes the buffer, which then has one element at a time.
    pub(crate) fn begin(out: &mut Vec<u8>, elements: Vec<Bound<'py, PyAny>>) -> Sorted<'py> {
        put_head(out, ARRAY, elements.len() as u64);
        Sorted {
            parts: Vec::with_capacity(elements.len()),
            elements: elements.into_iter(),
            outer: std::mem::take(out),
        }
    }

    fn next(&mut self, walker: &mut Walker<'py>, out: &mut Vec<u8>) -> Inner<'py> {
        loop {
            if !out.is_empty() {
                self.parts.push(std::mem::take(out));
            }
            let Some(element) = self.elements.next() else {
                break;
            };
            if !walker.put_plain(out, &element)? {
                return Ok(Some(element));
            }
        }
        self.parts.sort();
        *out = std::mem::take(&mut self.outer);
        out.extend(std::mem::take(&mut self.parts).into_iter().flatten());
        Ok(None)
    }
}

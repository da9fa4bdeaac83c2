//! Answers to administrators that another thread than the reactor's writes: the reactor gives plain
//! values, and the thread that waits for the answer serializes them.
//!
//! A long answer is written as text at once, element by element: no tree of JSON values is built, all
//! who asked share the text, and the thread that writes it yields between elements.

use std::fmt;
use std::hash::{DefaultHasher, Hasher};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use bytes::Bytes;
use serde::Serialize;
use serde_json::Value;

use crate::guard::guarded;
use crate::yielding::{self, pause, yielding};

#[cfg(test)]
mod tests;

/// An answer, written or on its way to it.
#[derive(Clone, Debug)]
pub(crate) enum Described {
    /// A small answer that is written already.
    Written(Value),
    /// An answer that is written when it is first needed; all requests for the same share it.
    Unwritten(Arc<Unwritten>),
}

/// An answer that is written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Written {
    /// A small answer.
    Value(Value),
    /// An answer that may be long.
    Json(JsonText),
    /// A text that is no JSON.
    Plain(Bytes),
}

/// JSON as text.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct JsonText {
    pub(crate) text: Bytes,
    /// A hash of the text, by which a version of it is known. All who share it need it.
    pub(crate) hash: u64,
}

/// Bytes that are hashed between two pauses.
const HASHED_AT_ONCE: usize = 64 << 10;

/// Something that is written once.
pub(crate) struct Unwritten {
    write: Mutex<Option<Box<dyn FnOnce() -> Written + Send>>>,
    /// `None` after a mistake of ours in writing it.
    written: OnceLock<Option<Written>>,
}

/// A list that is being written, one element after the other.
pub(crate) struct List {
    text: yielding::Buffer,
}

impl Described {
    /// An answer of what `describe` gives, when it is asked for.
    pub(crate) fn later<T: Serialize + 'static>(
        describe: impl FnOnce() -> T + Send + 'static,
    ) -> Self {
        Self::later_and(describe, drop)
    }

    /// The same, where much is to be freed afterwards: by `free`, which may yield meanwhile.
    pub(crate) fn later_and<T: Serialize + 'static>(
        describe: impl FnOnce() -> T + Send + 'static,
        free: impl FnOnce(T) + Send + 'static,
    ) -> Self {
        Self::unwritten(move || {
            let mut text = yielding::Buffer::default();
            let described = describe();
            write_json(&mut text, &described);
            free(described);
            Written::Json(JsonText::new(text))
        })
    }

    /// A list whose elements `write` pushes, when it is asked for. None of them need be kept.
    pub(crate) fn list(write: impl FnOnce(&mut List) + Send + 'static) -> Self {
        Self::unwritten(move || {
            let mut list = List { text: yielding::Buffer(b"[".to_vec()) };
            write(&mut list);
            list.text.0.push(b']');
            Written::Json(JsonText::new(list.text))
        })
    }

    /// JSON that another controller has written.
    pub(crate) fn of_another(text: Vec<u8>) -> Self {
        let is_small = text.len() <= HASHED_AT_ONCE;
        match is_small.then(|| serde_json::from_slice(&text)) {
            Some(Ok(value)) => Self::Written(value),
            Some(Err(_)) | None => {
                Self::unwritten(move || Written::Json(JsonText::new(yielding::Buffer(text))))
            }
        }
    }

    /// A text that is no JSON.
    pub(crate) fn plain(write: impl FnOnce() -> String + Send + 'static) -> Self {
        Self::unwritten(move || Written::Plain(write().into()))
    }

    fn unwritten(write: impl FnOnce() -> Written + Send + 'static) -> Self {
        Self::Unwritten(Arc::new(Unwritten {
            write: Mutex::new(Some(Box::new(write))),
            written: OnceLock::new(),
        }))
    }

    /// The answer; `None` after a mistake of ours in writing it. May take long where there is much to
    /// write.
    pub(crate) fn written(self) -> Option<Written> {
        match self {
            Self::Written(value) => Some(Written::Value(value)),
            Self::Unwritten(unwritten) => unwritten.written(),
        }
    }
}

impl List {
    /// Writes one more element.
    pub(crate) fn push(&mut self, element: &impl Serialize) {
        if self.text.0.len() > 1 {
            self.text.0.push(b',');
        }
        write_json(&mut self.text, element);
        pause();
    }
}

/// Descriptions are plain structures with text for keys, and memory takes what is written, so this
/// cannot fail.
fn write_json(text: &mut yielding::Buffer, value: &impl Serialize) {
    serde_json::to_writer(text, value).expect("a description has text for keys");
}

impl JsonText {
    fn new(text: yielding::Buffer) -> Self {
        let mut hasher = DefaultHasher::new();
        for part in text.0.chunks(HASHED_AT_ONCE) {
            hasher.write(part);
            pause();
        }
        Self { text: text.0.into(), hash: hasher.finish() }
    }
}

impl Written {
    /// The JSON as values; `None` for a text that is none.
    pub(crate) fn into_value(self) -> Option<Value> {
        match self {
            Self::Value(value) => Some(value),
            Self::Json(json) => serde_json::from_slice(&json.text).ok(),
            Self::Plain(_) => None,
        }
    }

    /// The text, as it is sent.
    pub(crate) fn into_text(self) -> Bytes {
        match self {
            Self::Value(value) => value.to_string().into(),
            Self::Json(JsonText { text, .. }) | Self::Plain(text) => text,
        }
    }
}

impl From<Value> for Written {
    fn from(value: Value) -> Self {
        Self::Value(value)
    }
}

impl Unwritten {
    /// Writes the answer, unless that was done; a second caller waits for the first.
    fn written(&self) -> Option<Written> {
        let written = self.written.get_or_init(|| {
            let write = self.write.lock().unwrap_or_else(PoisonError::into_inner).take();
            write.and_then(|write| guarded(|| yielding(write)).ok())
        });
        written.clone()
    }
}

impl fmt::Debug for Unwritten {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unwritten").finish_non_exhaustive()
    }
}

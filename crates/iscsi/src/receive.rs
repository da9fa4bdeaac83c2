//! Receive path: splits the incoming bytes into headers and data segments.
//!
//! Headers and small segments pass through a staging area that one read fills with many PDUs; a
//! large segment goes from the socket straight to where it belongs.

use block::Buffer;
use smallvec::SmallVec;

use crate::digest::{Running, crc32c};
use crate::limits::{DIRECT_BYTES_MIN, STAGING_BYTES};
use crate::pdu::{BHS_LENGTH, Bhs};

/// A header with its additional segments; their digest was right.
pub(crate) struct Header {
    pub(crate) bhs: Bhs,
    pub(crate) ahs: SmallVec<[u8; 4]>,
}

/// Where a data segment goes.
pub(crate) enum Destination {
    /// Nowhere: the PDU has no effect any more.
    Skip,
    /// Nowhere, but its end matters.
    Discard,
    /// Text and pings.
    Text(Vec<u8>),
    /// Aside, with the additional header segments, until earlier requests are there.
    Early(Box<(SmallVec<[u8; 4]>, Vec<u8>)>),
    /// The first `take` bytes go to `buffer` from `offset`, the others nowhere.
    Buffer { buffer: Buffer, offset: usize, take: usize },
}

/// A data segment that arrived completely.
pub(crate) struct Finished {
    pub(crate) bhs: Bhs,
    pub(crate) destination: Destination,
    /// Whether its digest was right, or there was none.
    pub(crate) intact: bool,
}

/// The next thing found in the stream.
pub(crate) enum Found {
    /// Nothing complete.
    Nothing,
    /// A header; the caller says by `begin_segment` where its data goes.
    Header(Header),
    /// A data segment.
    Segment(Finished),
    /// A header whose digest was wrong: where the next one begins is unknown.
    BadHeaderDigest,
}

/// A data segment on its way.
struct Segment {
    bhs: Bhs,
    destination: Destination,
    length: usize,
    consumed: usize,
    digest: Option<Running>,
}

/// The receiving half of a connection.
pub(crate) struct Receiver {
    staging: Box<[u8]>,
    /// The bytes of `staging` that hold something not yet consumed.
    start: usize,
    end: usize,
    segment: Option<Segment>,
    /// The last target handed out was in the segment's own memory.
    direct: bool,
    header_digest: bool,
    data_digest: bool,
}

impl Receiver {
    pub(crate) fn new() -> Self {
        Self {
            staging: vec![0; STAGING_BYTES].into_boxed_slice(),
            start: 0,
            end: 0,
            segment: None,
            direct: false,
            header_digest: false,
            data_digest: false,
        }
    }

    pub(crate) fn set_digests(&mut self, header: bool, data: bool) {
        self.header_digest = header;
        self.data_digest = data;
    }

    pub(crate) fn target(&mut self) -> &mut [u8] {
        self.direct = self.start == self.end
            && self.segment.as_ref().is_some_and(|segment| segment.missing_direct().is_some());
        if self.direct {
            let segment = self.segment.as_mut().expect("checked above");
            return segment.direct_target();
        }
        self.compact();
        &mut self.staging[self.end..]
    }

    fn compact(&mut self) {
        if self.start > 0 {
            self.staging.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
    }

    /// # Panics
    /// If `count` exceeds the length of the target handed out.
    pub(crate) fn received(&mut self, count: usize) {
        if self.direct {
            self.direct = false;
            let segment = self.segment.as_mut().expect("a direct target belongs to a segment");
            segment.advance_direct(count);
            return;
        }
        assert!(count <= self.staging.len() - self.end, "more received than there was room for");
        self.end += count;
    }

    pub(crate) fn next(&mut self) -> Found {
        if self.segment.is_some() { self.next_segment() } else { self.next_header() }
    }

    /// Says where the data segment of the header just found goes.
    pub(crate) fn begin_segment(&mut self, bhs: Bhs, destination: Destination) {
        let length = bhs.data_segment_length();
        let digest = (self.data_digest && length > 0).then(Running::new);
        self.segment = Some(Segment { bhs, destination, length, consumed: 0, digest });
    }

    /// The header of a segment of which nothing was consumed yet.
    pub(crate) fn undivided_segment(&self) -> Option<Bhs> {
        self.segment.as_ref().filter(|segment| segment.consumed == 0).map(|segment| segment.bhs)
    }

    /// Changes the destination of a segment of which nothing was consumed yet.
    pub(crate) fn redirect(&mut self, destination: Destination) {
        let segment = self.segment.as_mut().expect("the command's segment was begun");
        assert_eq!(segment.consumed, 0, "a segment under way keeps its destination");
        segment.destination = destination;
    }

    fn next_header(&mut self) -> Found {
        let staged = &self.staging[self.start..self.end];
        let Some(first) = staged.first_chunk::<BHS_LENGTH>() else { return Found::Nothing };
        let bhs = Bhs(*first);
        let header_length = BHS_LENGTH + bhs.ahs_length();
        let digest_length = if self.header_digest { 4 } else { 0 };
        let Some(whole) = staged.get(..header_length + digest_length) else {
            return Found::Nothing;
        };
        let (header, digest) = whole.split_at(header_length);
        if self.header_digest && crc32c(header) != *digest {
            return Found::BadHeaderDigest;
        }
        let ahs = SmallVec::from_slice(&header[BHS_LENGTH..]);
        self.consume(header_length + digest_length);
        Found::Header(Header { bhs, ahs })
    }

    fn next_segment(&mut self) -> Found {
        let segment = self.segment.as_mut().expect("checked by the caller");
        let staged = &self.staging[self.start..self.end];
        let count = staged.len().min(segment.length - segment.consumed);
        segment.take(&staged[..count]);
        self.consume(count);
        self.finish_segment()
    }

    /// Takes padding and digest, once all data is there.
    fn finish_segment(&mut self) -> Found {
        let segment = self.segment.as_ref().expect("checked by the caller");
        let pad = segment.length.next_multiple_of(4) - segment.length;
        let trailer = pad + if segment.digest.is_some() { 4 } else { 0 };
        let staged = &self.staging[self.start..self.end];
        if segment.consumed < segment.length || staged.len() < trailer {
            return Found::Nothing;
        }
        let Segment { bhs, destination, digest, .. } =
            self.segment.take().expect("it was there a moment ago");
        let intact = digest.is_none_or(|mut running| {
            running.update(&staged[..pad]);
            running.finish() == staged[pad..trailer]
        });
        self.consume(trailer);
        Found::Segment(Finished { bhs, destination, intact })
    }

    fn consume(&mut self, count: usize) {
        self.start += count;
        if self.start == self.end {
            self.start = 0;
            self.end = 0;
        }
    }
}

impl Segment {
    /// Takes the next bytes out of the staging area.
    fn take(&mut self, data: &[u8]) {
        if let Some(digest) = &mut self.digest {
            digest.update(data);
        }
        match &mut self.destination {
            Destination::Skip | Destination::Discard => {}
            Destination::Text(text) => text.extend_from_slice(data),
            Destination::Early(early) => early.1.extend_from_slice(data),
            Destination::Buffer { buffer, offset, take } => {
                let count = data.len().min(take.saturating_sub(self.consumed));
                let from = *offset + self.consumed;
                if count > 0 {
                    buffer[from..from + count].copy_from_slice(&data[..count]);
                }
            }
        }
        self.consumed += data.len();
    }

    /// The part of the buffer that is still to be filled, if it is worth a read of its own.
    fn missing_direct(&self) -> Option<std::ops::Range<usize>> {
        match &self.destination {
            Destination::Buffer { offset, take, .. }
                if *take >= self.consumed + DIRECT_BYTES_MIN =>
            {
                Some(offset + self.consumed..offset + take)
            }
            _ => None,
        }
    }

    fn direct_target(&mut self) -> &mut [u8] {
        let missing = self.missing_direct().expect("the caller checked");
        match &mut self.destination {
            Destination::Buffer { buffer, .. } => &mut buffer[missing],
            _ => &mut [],
        }
    }

    fn advance_direct(&mut self, count: usize) {
        let missing = self.missing_direct().expect("the target was handed out");
        assert!(count <= missing.len(), "more received than there was room for");
        if let (Some(digest), Destination::Buffer { buffer, .. }) =
            (&mut self.digest, &self.destination)
        {
            digest.update(&buffer[missing.start..missing.start + count]);
        }
        self.consumed += count;
    }
}

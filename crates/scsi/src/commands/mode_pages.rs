//! Mode pages (SPC-4 7.5, SBC-4 6.5): their bytes, and which of them MODE SELECT may change.

use crate::modes::{Modes, Threshold};
use crate::sense::{INVALID_FIELD_IN_PARAMETER_LIST, PARAMETER_LIST_LENGTH_ERROR, Sense};

/// PAGE CODE and SUBPAGE CODE.
pub(super) const ALL_PAGES: u8 = 0x3f;
pub(super) const ALL_SUBPAGES: u8 = 0xff;

/// PS: every page can be saved.
const PS: u8 = 0x80;

/// SPF: the page has a subpage code and a length of two bytes.
const SPF: u8 = 0x40;

const CONTROL: u8 = 0x0a;
const INFORMATIONAL_EXCEPTIONS: u8 = 0x1c;
const PROVISIONING: u8 = 0x02;

const D_SENSE: (usize, u8) = (2, 0x04);
const SWP: (usize, u8) = (4, 0x08);
const TAS: (usize, u8) = (5, 0x40);

/// THRESHOLD RESOURCE (SBC-4 table 235), where the descriptor of each begins.
const AVAILABLE: (u8, usize) = (0x01, 16);
const USED: (u8, usize) = (0x02, 24);

/// ENABLED, THRESHOLD TYPE 0 (soft), and THRESHOLD ARMING: when the count falls, or rises, to it.
const ENABLED: u8 = 0x80;
const FALLING: u8 = 0x00;
const RISING: u8 = 0x01;

/// One mode page.
pub(super) struct Page {
    pub(super) code: u8,
    pub(super) subpage: u8,
    /// All of it, with its header, for these mode parameters.
    emit: fn(&Modes) -> Vec<u8>,
    /// Byte number and bits that can be changed.
    changeable: &'static [(usize, u8)],
    /// The mode parameters with what the page says.
    parse: fn(&[u8], Modes) -> Modes,
}

/// Every page, by ascending page code and subpage code.
pub(super) static PAGES: [Page; 5] = [
    Page { code: 0x01, subpage: 0, emit: error_recovery, changeable: &[], parse: unchanged },
    Page { code: 0x08, subpage: 0, emit: caching, changeable: &[], parse: unchanged },
    Page {
        code: CONTROL,
        subpage: 0,
        emit: control,
        changeable: &[D_SENSE, SWP, TAS],
        parse: parse_control,
    },
    Page {
        code: INFORMATIONAL_EXCEPTIONS,
        subpage: 0,
        emit: informational_exceptions,
        changeable: &[],
        parse: unchanged,
    },
    Page {
        code: INFORMATIONAL_EXCEPTIONS,
        subpage: PROVISIONING,
        emit: provisioning,
        changeable: &[
            (AVAILABLE.1, ENABLED),
            (AVAILABLE.1 + 4, 0xff),
            (AVAILABLE.1 + 5, 0xff),
            (AVAILABLE.1 + 6, 0xff),
            (AVAILABLE.1 + 7, 0xff),
            (USED.1, ENABLED),
            (USED.1 + 4, 0xff),
            (USED.1 + 5, 0xff),
            (USED.1 + 6, 0xff),
            (USED.1 + 7, 0xff),
        ],
        parse: parse_provisioning,
    },
];

impl Page {
    /// The page with these mode parameters.
    pub(super) fn values(&self, modes: &Modes) -> Vec<u8> {
        let mut page = (self.emit)(modes);
        page[0] |= PS;
        page
    }

    /// The page with a one for every bit that can be changed.
    pub(super) fn mask(&self) -> Vec<u8> {
        let mut page = self.values(&Modes::default());
        page[self.header_bytes()..].fill(0);
        for &(byte, bits) in self.changeable {
            page[byte] = bits;
        }
        page
    }

    const fn header_bytes(&self) -> usize {
        if self.subpage == 0 { 2 } else { 4 }
    }

    /// Whether CDB or parameter list mean this page.
    pub(super) fn is_named(&self, code: u8, subpage: u8) -> bool {
        (code == ALL_PAGES || code == self.code)
            && (subpage == ALL_SUBPAGES || subpage == self.subpage)
    }
}

/// Takes the pages of a MODE SELECT, which begin at `offset` of its parameter list.
///
/// # Errors
/// 05h/1Ah/00h if the list ends within a page, 05h/26h/00h if a page is not known, has another
/// length, or changes what cannot be changed.
pub(super) fn parse_pages(list: &[u8], offset: usize, modes: &Modes) -> Result<Modes, Sense> {
    let mut changed = modes.clone();
    let mut at = offset;
    while at < list.len() {
        let page = find(list, at)?;
        let current = (page.emit)(&changed);
        let bytes = list.get(at..at + current.len()).ok_or(PARAMETER_LIST_LENGTH_ERROR)?;
        check_changes(page, &current, bytes, at)?;
        changed = (page.parse)(bytes, changed);
        at += current.len();
    }
    Ok(changed)
}

fn find(list: &[u8], at: usize) -> Result<&'static Page, Sense> {
    let header = |index| list.get(at + index).copied().ok_or(PARAMETER_LIST_LENGTH_ERROR);
    let code = header(0)? & 0x3f;
    let has_subpage = header(0)? & SPF != 0;
    let subpage = if has_subpage { header(1)? } else { 0 };
    let page = PAGES.iter().find(|page| page.code == code && page.subpage == subpage);
    let page = page.ok_or_else(|| invalid(at + usize::from(has_subpage), None))?;
    let length = if has_subpage {
        4 + usize::from(u16::from_be_bytes([header(2)?, header(3)?]))
    } else {
        2 + usize::from(header(1)?)
    };
    if length != (page.emit)(&Modes::default()).len() {
        return Err(invalid(at + if has_subpage { 2 } else { 1 }, None));
    }
    Ok(page)
}

/// SPC-4 6.9: a field that cannot be changed must be as it is.
fn check_changes(page: &Page, current: &[u8], bytes: &[u8], at: usize) -> Result<(), Sense> {
    let mask = page.mask();
    for index in page.header_bytes()..current.len() {
        let wrong = (current[index] ^ bytes[index]) & !mask[index];
        if wrong != 0 {
            return Err(invalid(at + index, Some(7 - wrong.leading_zeros() as u8)));
        }
    }
    Ok(())
}

fn invalid(byte: usize, bit: Option<u8>) -> Sense {
    Sense::in_parameter_list_bit(INVALID_FIELD_IN_PARAMETER_LIST, byte, bit)
}

fn unchanged(_: &[u8], modes: Modes) -> Modes {
    modes
}

/// SBC-4 6.5.10: nothing is retried and nothing reallocated, what is read is right or an error.
fn error_recovery(_: &Modes) -> Vec<u8> {
    page(0x01, 10)
}

/// SBC-4 6.5.5: WCE is zero, since a write is answered only when it is stable.
fn caching(_: &Modes) -> Vec<u8> {
    page(0x08, 18)
}

/// SPC-4 7.5.8: QUEUE ALGORITHM MODIFIER unrestricted; no busy timeout limit.
fn control(modes: &Modes) -> Vec<u8> {
    let mut page = page(CONTROL, 10);
    page[3] = 0x10;
    page[8..10].fill(0xff);
    let bits = [
        (D_SENSE, modes.descriptor_sense),
        (SWP, modes.software_write_protect),
        (TAS, modes.task_aborted_status),
    ];
    for ((byte, bit), _) in bits.into_iter().filter(|(_, is_set)| *is_set) {
        page[byte] |= bit;
    }
    page
}

fn parse_control(page: &[u8], modes: Modes) -> Modes {
    let is_set = |(byte, bit): (usize, u8)| page[byte] & bit != 0;
    Modes {
        descriptor_sense: is_set(D_SENSE),
        software_write_protect: is_set(SWP),
        task_aborted_status: is_set(TAS),
        ..modes
    }
}

/// SPC-4 7.5.11: no informational exceptions are reported (DEXCPT).
fn informational_exceptions(_: &Modes) -> Vec<u8> {
    let mut page = page(INFORMATIONAL_EXCEPTIONS, 10);
    page[2] = 0x08;
    page
}

/// SBC-4 6.5.7: a threshold for what is available and one for what is used; each is told every
/// time that it is reached (SITUA is zero).
fn provisioning(modes: &Modes) -> Vec<u8> {
    let mut page = vec![0; 32];
    page[..4].copy_from_slice(&[SPF | INFORMATIONAL_EXCEPTIONS, PROVISIONING, 0, 28]);
    for ((resource, at), arming, threshold) in
        [(AVAILABLE, FALLING, modes.available_threshold), (USED, RISING, modes.used_threshold)]
    {
        page[at] = arming | if threshold.enabled { ENABLED } else { 0 };
        page[at + 1] = resource;
        page[at + 4..at + 8].copy_from_slice(&threshold.count.to_be_bytes());
    }
    page
}

fn parse_provisioning(page: &[u8], modes: Modes) -> Modes {
    let threshold = |at: usize| Threshold {
        enabled: page[at] & ENABLED != 0,
        count: u32::from_be_bytes([page[at + 4], page[at + 5], page[at + 6], page[at + 7]]),
    };
    Modes {
        available_threshold: threshold(AVAILABLE.1),
        is_available_threshold_set: true,
        used_threshold: threshold(USED.1),
        ..modes
    }
}

/// A page of zeros behind a header without subpage code.
fn page(code: u8, length: u8) -> Vec<u8> {
    let mut page = vec![0; usize::from(length) + 2];
    page[..2].copy_from_slice(&[code, length]);
    page
}

//! A diagnosis of a LUN: what it advertises, what works, what would fall back and why, and what to
//! set.

use std::fmt::Write;

use serde::Serialize;

use crate::esxi::counters::Kind;
use crate::esxi::lun::{Identity, Lun};
use crate::esxi::settings::Settings;
use crate::esxi::vaai::Status;
use crate::initiator::cdb::{self, Cdb};
use crate::initiator::session::{Data, SessionError};

/// What was found of one primitive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// ATS, Clone, Zero, Delete or Reserve.
    pub primitive: &'static str,
    /// What INQUIRY and its pages say.
    pub advertised: String,
    /// Whether it works; unknown when it was not tried.
    pub works: Status,
    /// How it went.
    pub detail: String,
    /// What a host does without it.
    pub consequence: &'static str,
}

/// A diagnosis.
#[derive(Clone, Debug, Serialize)]
pub struct Diagnosis {
    /// The device's name.
    pub device: String,
    /// Vendor and product.
    pub product: String,
    /// Bytes.
    pub size_bytes: u64,
    /// What was found.
    pub findings: Vec<Finding>,
    /// What to know or to set.
    pub advice: Vec<String>,
}

/// Whether the doctor may write. With scratch the last MiB of the LUN is overwritten and restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Only commands that change nothing, whatever is on the LUN.
    ReadOnly,
    /// Also those that write; nobody else may use the LUN's last MiB meanwhile.
    Scratch,
}

/// Examines a LUN.
///
/// # Errors
/// When it cannot be reached or read.
pub fn examine(url: &str, initiator: &str, depth: Depth) -> Result<Diagnosis, SessionError> {
    let mut lun = Lun::connect(&[url.to_owned()], initiator, &Settings::default())?;
    let findings = vec![
        ats(&mut lun)?,
        clone(&mut lun, depth)?,
        zero(&mut lun, depth)?,
        delete(&mut lun, depth)?,
        reserve(&mut lun)?,
    ];
    let identity = &lun.identity;
    Ok(Diagnosis {
        device: identity.name(),
        product: format!("{} {} {}", identity.vendor, identity.product, identity.revision),
        size_bytes: identity.size_bytes,
        advice: advice(identity, &findings),
        findings,
    })
}

fn outcome(result: &Result<Vec<u8>, SessionError>) -> (Status, String) {
    match result {
        Ok(_) => (Status::Supported, "GOOD".into()),
        Err(error) => (Status::Unsupported, error.to_string()),
    }
}

const MIB: u64 = 1 << 20;

fn scratch(lun: &Lun) -> u64 {
    lun.identity.size_bytes / MIB * MIB - MIB
}

/// Replaces a sector with itself: nothing changes, even if another host writes it meanwhile.
fn ats(lun: &mut Lun) -> Result<Finding, SessionError> {
    let at = scratch(lun);
    let sector = lun.read_bytes(at, 512)?;
    let swap = |lun: &mut Lun, expected: &[u8]| {
        let data = Data::Out([expected, &sector].concat());
        lun.command(Kind::Ats, cdb::compare_and_write(at / 512, 1), data, 512)
    };
    let (mut works, mut detail) = outcome(&swap(lun, &sector));
    if works == Status::Supported {
        let mut other = sector.clone();
        other[100] ^= 1;
        match swap(lun, &other) {
            Err(SessionError::Command { key: 0xe, ascq: 0x1d00, .. }) => {
                detail += "; a miscompare is reported";
            }
            other => {
                works = Status::Unsupported;
                detail = format!("a miscompare is not reported: {}", outcome(&other).1);
            }
        }
    }
    let advertised = match lun.identity.ats_blocks_max {
        0 => "no (MAXIMUM COMPARE AND WRITE LENGTH is 0)".into(),
        blocks => format!("up to {blocks} blocks"),
    };
    let consequence =
        "locks by RESERVE and RELEASE: hosts wait for each other, the whole LUN at once";
    Ok(Finding { primitive: "ATS", advertised, works, detail, consequence })
}

fn clone(lun: &mut Lun, depth: Depth) -> Result<Finding, SessionError> {
    let advertised = match (lun.identity.third_party_copy, lun.identity.copy) {
        (false, _) => "no (3PC is 0)".into(),
        (true, None) => "3PC, without operating parameters".into(),
        (true, Some((segments, 0))) => format!("up to {segments} segments of any length"),
        (true, Some((segments, bytes))) => format!("up to {segments} segments of {bytes} bytes"),
    };
    let (works, detail) = match (lun.identity.naa, depth) {
        (None, _) => (Status::Unsupported, "the LUN has no NAA identifier".into()),
        (Some(naa), Depth::ReadOnly) => copy_nothing(lun, &naa),
        (Some(naa), Depth::Scratch) => copy_something(lun, &naa)?,
    };
    let consequence =
        "clones and migrations go through the host: every byte crosses the wire twice";
    Ok(Finding { primitive: "Clone", advertised, works, detail, consequence })
}

fn copy(
    lun: &mut Lun,
    naa: &[u8; 16],
    from: u64,
    to: u64,
    blocks: u16,
) -> Result<Vec<u8>, SessionError> {
    let list = cdb::extended_copy_list(naa, from / 512, naa, to / 512, blocks);
    let cdb = cdb::extended_copy(list.len() as u32);
    lun.command(Kind::Clone, cdb, Data::Out(list), u64::from(blocks) * 512)
}

/// Lets a LUN say whether it carries out EXTENDED COPY, by a copy of 0 blocks; [`Lun::vaai`] has the answer.
pub(crate) fn try_clone(lun: &mut Lun) {
    if let Some(naa) = lun.identity.naa {
        copy_nothing(lun, &naa);
    }
}

/// A segment of 0 blocks copies nothing, but everything before it is looked at.
fn copy_nothing(lun: &mut Lun, naa: &[u8; 16]) -> (Status, String) {
    let (works, detail) = outcome(&copy(lun, naa, 0, 0, 0));
    (works, format!("{detail} (0 blocks copied)"))
}

fn copy_something(lun: &mut Lun, naa: &[u8; 16]) -> Result<(Status, String), SessionError> {
    const HALF: u64 = MIB / 2;
    let at = scratch(lun);
    let before = lun.read_bytes(at, MIB)?;
    let pattern: Vec<u8> = (0..HALF).map(|n| (n * 7 + n / 512) as u8).collect();
    put(lun, at, &pattern)?;
    let copied = copy(lun, naa, at, at + HALF, (HALF / 512) as u16);
    let found = lun.read_bytes(at + HALF, HALF)?;
    put(lun, at, &before)?;
    let (works, detail) = outcome(&copied);
    if works == Status::Supported && found != pattern {
        return Ok((Status::Unsupported, "GOOD, and the copy is NOT the source".into()));
    }
    Ok((works, if copied.is_ok() { format!("{detail}, the copy is exact") } else { detail }))
}

fn put(lun: &mut Lun, at: u64, bytes: &[u8]) -> Result<(), SessionError> {
    let cdb = cdb::write(at / 512, (bytes.len() / 512) as u32);
    lun.command(Kind::Write, cdb, Data::Out(bytes.to_vec()), bytes.len() as u64).map(|_| ())
}

/// Writes ones, lets the LUN do something, reads, restores.
fn try_on_scratch(
    lun: &mut Lun,
    kind: Kind,
    cdb: Cdb,
    data: Vec<u8>,
) -> Result<(Status, String), SessionError> {
    let at = scratch(lun);
    let before = lun.read_bytes(at, MIB)?;
    put(lun, at, &vec![0xff; MIB as usize])?;
    let done = lun.command(kind, cdb, Data::Out(data), MIB);
    let zeros = lun.read_bytes(at, MIB)?.iter().all(|byte| *byte == 0);
    put(lun, at, &before)?;
    let (works, detail) = outcome(&done);
    if works == Status::Supported && !zeros {
        if kind == Kind::Zero {
            return Ok((Status::Unsupported, "GOOD, and the range is NOT zero".into()));
        }
        return Ok((works, format!("{detail}, the range does not read as zeros")));
    }
    Ok((works, if done.is_ok() { format!("{detail}, the range reads as zeros") } else { detail }))
}

const NOT_TRIED: &str = "not tried: it writes (--scratch)";

fn zero(lun: &mut Lun, depth: Depth) -> Result<Finding, SessionError> {
    let at = scratch(lun);
    let (works, detail) = match depth {
        Depth::ReadOnly => (Status::Unknown, NOT_TRIED.into()),
        Depth::Scratch => {
            let cdb = cdb::write_same(at / 512, (MIB / 512) as u32);
            try_on_scratch(lun, Kind::Zero, cdb, vec![0; 512])?
        }
    };
    let advertised = match lun.identity.write_same_blocks_max {
        0 => "no limit told".into(),
        blocks => format!("up to {blocks} blocks"),
    };
    let consequence = "zeros are sent over the wire when disks are zeroed or first written";
    Ok(Finding { primitive: "Zero", advertised, works, detail, consequence })
}

fn delete(lun: &mut Lun, depth: Depth) -> Result<Finding, SessionError> {
    let at = scratch(lun);
    let (works, detail) = match depth {
        Depth::ReadOnly => {
            // What ESXi sends to hear of a thin LUN's state: no range, so nothing to do.
            let none = lun.command(
                Kind::Delete,
                cdb::unmap(8),
                Data::Out(vec![0, 6, 0, 0, 0, 0, 0, 0]),
                0,
            );
            let (works, detail) = outcome(&none);
            (works, format!("{detail} (no range)"))
        }
        Depth::Scratch => {
            let list = cdb::unmap_list(at / 512, (MIB / 512) as u32);
            try_on_scratch(lun, Kind::Delete, cdb::unmap(list.len() as u16), list)?
        }
    };
    let identity = &lun.identity;
    let advertised = if identity.thin {
        format!(
            "thin; up to {} ranges of {} blocks, granularity {} blocks",
            identity.unmap_descriptors_max, identity.unmap_blocks_max, identity.unmap_granularity
        )
    } else {
        "no (LBPME is 0)".into()
    };
    let consequence = "space of deleted files stays taken on the array";
    Ok(Finding { primitive: "Delete", advertised, works, detail, consequence })
}

fn reserve(lun: &mut Lun) -> Result<Finding, SessionError> {
    let six = |opcode: u8| {
        let mut cdb = [0; 16];
        cdb[0] = opcode;
        cdb
    };
    let reserved = lun.command(Kind::Reserve, six(0x16), Data::None, 0);
    let released = lun.command(Kind::Other, six(0x17), Data::None, 0);
    let (works, detail) = outcome(&reserved.and(released));
    let advertised = "RESERVE(6), RELEASE(6)".into();
    let consequence = "without ATS no datastore can be made";
    Ok(Finding { primitive: "Reserve", advertised, works, detail, consequence })
}

fn advice(identity: &Identity, findings: &[Finding]) -> Vec<String> {
    let works = |name: &str| {
        findings.iter().any(|found| found.primitive == name && found.works == Status::Supported)
    };
    let mut advice = Vec::new();
    if works("ATS") {
        advice.push(
            "datastores are made ATS-only; leave /VMFS3/HardwareAcceleratedLocking at 1".into(),
        );
    } else if works("Reserve") {
        advice.push(
            "no ATS: datastores lock with SCSI-2 reservations; expect CONS/s under load".into(),
        );
    } else {
        advice.push("neither ATS nor reservations: ESXi cannot make a datastore here".into());
    }
    match identity.copy.filter(|_| works("Clone")) {
        Some((segments, bytes)) if segments > 1 && bytes >= 4 << 20 => {
            let whole = (u64::from(segments) * u64::from(bytes)) >> 20;
            advice.push(format!(
                "claim rule for larger copies: esxcli storage core claimrule add -c VAAI -r 914 \
                 -t vendor -V {} -M \"{}\" -P VMW_VAAIP_T10 -a -s -m {}; esxcli storage core \
                 claimrule load -c VAAI",
                identity.vendor,
                identity.product,
                whole.min(240)
            ));
        }
        Some(_) => advice.push("leave /DataMover/MaxHWTransferSize at 4096, or try 16384".into()),
        None => advice.push("no XCOPY: clones are read and written by the host".into()),
    }
    if identity.naa.is_none() {
        advice.push(
            "no NAA identifier: the device's name may change, and XCOPY cannot name it".into(),
        );
    }
    let granularity = u64::from(identity.unmap_granularity) * 512;
    if identity.thin && granularity > 1 << 20 {
        advice.push("UNMAP granularity above 1 MiB: VMFS-6 does not unmap by itself".into());
    }
    if works("Delete") && identity.thin {
        advice.push(
            "VMFS-5 gives space back on command: esxcli storage vmfs unmap -l DATASTORE".into(),
        );
    }
    advice
}

impl Diagnosis {
    /// For people.
    pub fn text(&self) -> String {
        let mut text =
            format!("{}\n   {}, {} MiB\n\n", self.device, self.product, self.size_bytes >> 20);
        for found in &self.findings {
            let _ = writeln!(text, "{}: {}", found.primitive, found.works);
            let _ =
                writeln!(text, "   advertised: {}\n   tried: {}", found.advertised, found.detail);
            if found.works == Status::Unsupported {
                let _ = writeln!(text, "   so: {}", found.consequence);
            }
        }
        let _ = writeln!(text);
        for line in &self.advice {
            let _ = writeln!(text, "- {line}");
        }
        text
    }
}

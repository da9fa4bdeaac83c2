//! Virtual disks: a descriptor file in text, and the data in a second file.

use crate::file::{File, Fill};
use crate::limits::{DISK_MAX, FILE_BLOCK};
use crate::lock::LockMode;
use crate::volume::Volume;
use crate::{Disk, Error, Result};

/// How a virtual disk takes its space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskFormat {
    /// When it is written.
    Thin,
    /// At once, each block zeroed before its first write.
    ZeroedThick,
    /// At once, zeroed.
    EagerZeroedThick,
}

impl DiskFormat {
    /// The word of `vmkfstools -d`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Thin => "thin",
            Self::ZeroedThick => "zeroedthick",
            Self::EagerZeroedThick => "eagerzeroedthick",
        }
    }

    /// The format of a word.
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Thin, Self::ZeroedThick, Self::EagerZeroedThick]
            .into_iter()
            .find(|format| format.name() == name)
    }
}

/// What a descriptor file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskDescriptor {
    /// Bytes of the disk.
    pub size: u64,
    /// The data's file, in the same directory.
    pub extent: String,
    /// Whether it was made thin.
    pub thin: bool,
    /// Content identifier.
    pub cid: u32,
    /// The disk that this one is a snapshot of, with its content identifier.
    pub parent: Option<(String, u32)>,
    /// It is a raw device mapping: the data is on a device, which the extent's file names.
    pub raw: bool,
}

impl DiskDescriptor {
    /// The descriptor as text.
    pub fn emit(&self) -> String {
        let sectors = self.size / 512;
        let (kind, extent, hint) = match &self.parent {
            None if self.raw => ("vmfsRawDeviceMap", "VMFSRDM", String::new()),
            None => ("vmfs", "VMFS", String::new()),
            Some((name, _)) => {
                ("vmfsSparse", "VMFSSPARSE", format!("parentFileNameHint=\"{name}\"\n"))
            }
        };
        let parent = self.parent.as_ref().map_or(u32::MAX, |(_, cid)| *cid);
        let thin = if self.thin { "ddb.thinProvisioned = \"1\"\n" } else { "" };
        format!(
            "# Disk DescriptorFile\nversion=1\nencoding=\"UTF-8\"\nCID={:08x}\nparentCID={parent:08x}\n\
             isNativeSnapshot=\"no\"\ncreateType=\"{kind}\"\n{hint}\n# Extent description\n\
             RW {sectors} {extent} \"{}\"\n\n# The Disk Data Base \n#DDB\n\n\
             ddb.adapterType = \"lsilogic\"\nddb.geometry.cylinders = \"{}\"\n\
             ddb.geometry.heads = \"255\"\nddb.geometry.sectors = \"63\"\n{thin}\
             ddb.virtualHWVersion = \"8\"\n",
            self.cid,
            self.extent,
            (sectors / (255 * 63)).max(1),
        )
    }

    /// Reads a descriptor.
    ///
    /// # Errors
    /// When it is none.
    pub fn parse(text: &str) -> Result<Self> {
        let value = |key: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(key));
            line.map(|rest| rest.trim_matches([' ', '=', '"']))
        };
        let damaged = || Error::Format("not a disk descriptor".into());
        let extent = text.lines().find(|line| line.starts_with("RW ")).ok_or_else(damaged)?;
        let mut words = extent.splitn(4, ' ').skip(1);
        let sectors: u64 = words.next().and_then(|word| word.parse().ok()).ok_or_else(damaged)?;
        let kind = words.next().ok_or_else(damaged)?;
        let name = words.next().ok_or_else(damaged)?.trim_matches('"');
        let hex = |key| value(key).and_then(|text| u32::from_str_radix(text, 16).ok());
        let hint = value("parentFileNameHint").map(str::to_owned);
        Ok(Self {
            size: sectors.checked_mul(512).ok_or_else(damaged)?,
            extent: name.to_owned(),
            thin: value("ddb.thinProvisioned") == Some("1"),
            cid: hex("CID").ok_or_else(damaged)?,
            parent: hint.zip(hex("parentCID")),
            raw: kind.starts_with("VMFSRDM"),
        })
    }

    /// The name of the file with the data.
    ///
    /// # Errors
    /// [`Error::Argument`] for a raw device mapping, whose data is on a device.
    pub(crate) fn data(&self) -> Result<&str> {
        if self.raw {
            return Err(Error::Argument(
                "a raw device mapping: its data is on the device, not here",
            ));
        }
        Ok(&self.extent)
    }
}

/// The path of a file in the same directory as another.
pub fn beside(path: &str, name: &str) -> String {
    path.rsplit_once('/').map_or_else(|| name.to_owned(), |(folder, _)| format!("{folder}/{name}"))
}

/// Refuses sizes that a virtual disk cannot have.
///
/// # Errors
/// [`Error::Argument`].
pub fn check_size(size: u64) -> Result<()> {
    if !(FILE_BLOCK..=DISK_MAX).contains(&size) || !size.is_multiple_of(512) {
        return Err(Error::Argument("a disk's size is a multiple of 512, from 1 MiB to 62 TiB"));
    }
    Ok(())
}

/// The name of a disk's second file, with the ending of its kind. A descriptor need not end in
/// '.vmdk' when it is that of a raw device mapping: Forklift's have a number behind it.
fn extent_name(path: &str, ending: &str) -> Result<String> {
    let name = path.rsplit('/').next().unwrap_or(path);
    let stem = match ending {
        "rdm" => Some(name.strip_suffix(".vmdk").unwrap_or(name)),
        _ => name.strip_suffix(".vmdk"),
    };
    let stem = stem.filter(|stem| !stem.is_empty()).ok_or_else(|| Error::Name(path.to_owned()))?;
    Ok(format!("{stem}-{ending}.vmdk"))
}

impl<D: Disk> Volume<D> {
    /// Creates a virtual disk; returns its data, open. The blocks of an eager zeroed one are still
    /// to be zeroed: the caller does that, with [`Volume::mark_written`].
    ///
    /// # Errors
    /// [`Error::Exists`]; [`Error::NoSpace`], after which nothing is left of it.
    pub fn create_disk(&mut self, path: &str, size: u64, format: DiskFormat) -> Result<File> {
        check_size(size)?;
        let extent = extent_name(path, "flat")?;
        let thin = format == DiskFormat::Thin;
        let descriptor = DiskDescriptor {
            size,
            extent: extent.clone(),
            thin,
            cid: 0xffff_fffe,
            parent: None,
            raw: false,
        };
        self.create_descriptor(path, &descriptor)?;
        let flat = beside(path, &extent);
        let created = self.create_extent(&flat, size, format);
        if created.is_err() {
            self.remove_path(path)?;
        }
        created
    }

    /// Creates a raw device mapping: a descriptor, and a file that names the device. The device is
    /// not touched. ESXi has the second file as a type of its own; here it is text.
    ///
    /// # Errors
    /// [`Error::Exists`]; [`Error::NoSpace`], after which nothing is left of it.
    pub fn create_raw_mapping(&mut self, path: &str, size: u64, device: &str) -> Result<()> {
        let extent = extent_name(path, "rdm")?;
        let pointer = beside(path, &extent);
        let (thin, cid, parent) = (false, 0xffff_fffe, None);
        let descriptor = DiskDescriptor { size, extent, thin, cid, parent, raw: true };
        self.create_descriptor(path, &descriptor)?;
        let named = self.create_text(&pointer, &format!("{device}\n"));
        if named.is_err() {
            self.remove_path(path)?;
        }
        named
    }

    /// Writes a descriptor into a new file.
    pub(crate) fn create_descriptor(
        &mut self,
        path: &str,
        descriptor: &DiskDescriptor,
    ) -> Result<()> {
        self.create_text(path, &descriptor.emit())
    }

    fn create_text(&mut self, path: &str, content: &str) -> Result<()> {
        let mut text = self.create(path)?;
        let written = self.write_at(&mut text, 0, content.as_bytes());
        self.close(text)?;
        if written.is_err() {
            self.remove_path(path)?;
        }
        written
    }

    /// Writes a descriptor over another one.
    ///
    /// # Errors
    /// [`Error::Locked`] when another host uses it.
    pub fn replace_descriptor(&mut self, path: &str, descriptor: &DiskDescriptor) -> Result<()> {
        let mut text = self.open(path, LockMode::Exclusive)?;
        let replaced = self.overwrite(&mut text, descriptor.emit().into_bytes());
        self.close(text)?;
        replaced
    }

    /// Overwrites a text in one write. What is shorter than the old text ends in empty lines; for
    /// what is longer, the old text is lengthened by empty lines first: there is no moment at which
    /// the file holds neither of them whole.
    fn overwrite(&mut self, file: &mut File, mut bytes: Vec<u8>) -> Result<()> {
        let old = file.length() as usize;
        if bytes.len() > old {
            self.write_at(file, old as u64, &vec![b'\n'; bytes.len() - old])?;
        }
        bytes.resize(bytes.len().max(old), b'\n');
        self.write_at(file, 0, &bytes)
    }

    fn create_extent(&mut self, flat: &str, size: u64, format: DiskFormat) -> Result<File> {
        let mut file = self.create(flat)?;
        let mut made = self.set_length(&mut file, size);
        if made.is_ok() && format != DiskFormat::Thin {
            made = self.allocate(&mut file, [0, size], Fill::ToBeZeroed);
        }
        if let Err(error) = made {
            self.close(file)?;
            self.remove_path(flat)?;
            return Err(error);
        }
        Ok(file)
    }

    /// Reads a disk's descriptor.
    ///
    /// # Errors
    /// When there is no such file, or it is no descriptor.
    pub fn disk_descriptor(&mut self, path: &str) -> Result<DiskDescriptor> {
        let mut bytes = vec![0; FILE_BLOCK as usize];
        let file = self.open(path, LockMode::ReadOnly)?;
        let read = self.read_at(&file, 0, &mut bytes);
        self.close(file)?;
        bytes.truncate(read?);
        DiskDescriptor::parse(&String::from_utf8_lossy(&bytes))
    }

    /// Opens a disk's data.
    ///
    /// # Errors
    /// [`Error::Locked`] when another host uses it; [`Error::Argument`] for a raw device mapping.
    pub fn open_disk(&mut self, path: &str, mode: LockMode) -> Result<File> {
        let descriptor = self.disk_descriptor(path)?;
        self.open(&beside(path, descriptor.data()?), mode)
    }

    /// Deletes a disk with its data; of a raw device mapping, both files, and not what is on the device.
    ///
    /// # Errors
    /// [`Error::Locked`] when another host uses it.
    pub fn remove_disk(&mut self, path: &str) -> Result<()> {
        let descriptor = self.disk_descriptor(path)?;
        self.remove_path(&beside(path, &descriptor.extent))?;
        self.remove_path(path)
    }
}

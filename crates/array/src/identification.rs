//! Vendor and product identification (INQUIRY) that LUNs report to hosts.

use serde::{Deserialize, Serialize};

use crate::ArrayError;

/// T10 VENDOR IDENTIFICATION and PRODUCT IDENTIFICATION of standard INQUIRY data (SPC-4 6.6.2):
/// graphic ASCII characters and spaces, padded with spaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Texts", into = "Texts")]
pub struct Identification {
    vendor: [u8; 8],
    product: [u8; 16],
}

/// The same without padding, as it is saved.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Texts {
    vendor: String,
    product: String,
}

impl Identification {
    /// From texts without padding: the vendor of 1 to 8 characters, the product of 1 to 16.
    ///
    /// # Errors
    /// A text that is empty, too long, begins or ends with a space, or has a character other than
    /// the printable ones of ASCII.
    pub fn new(vendor: &str, product: &str) -> Result<Self, ArrayError> {
        Ok(Self { vendor: padded("vendor", vendor)?, product: padded("product", product)? })
    }

    /// The vendor, padded.
    pub fn vendor_field(&self) -> [u8; 8] {
        self.vendor
    }

    /// The product, padded.
    pub fn product_field(&self) -> [u8; 16] {
        self.product
    }

    /// The vendor without padding.
    pub fn vendor(&self) -> &str {
        text(&self.vendor)
    }

    /// The product without padding.
    pub fn product(&self) -> &str {
        text(&self.product)
    }

    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl Default for Identification {
    fn default() -> Self {
        Self { vendor: *b"GANTRY  ", product: *b"VIRTUAL DISK    " }
    }
}

impl TryFrom<Texts> for Identification {
    type Error = ArrayError;

    fn try_from(texts: Texts) -> Result<Self, ArrayError> {
        Self::new(&texts.vendor, &texts.product)
    }
}

impl From<Identification> for Texts {
    fn from(identification: Identification) -> Self {
        let (vendor, product) = (identification.vendor(), identification.product());
        Self { vendor: vendor.to_owned(), product: product.to_owned() }
    }
}

/// SPC-4 4.4.1: ASCII data fields hold graphic codes and spaces, aligned to the left.
fn padded<const N: usize>(field: &'static str, text: &str) -> Result<[u8; N], ArrayError> {
    let is_printable = text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    let is_bare = !text.is_empty() && text.trim_matches(' ') == text;
    if !is_printable || !is_bare || text.len() > N {
        let text = text.to_owned();
        return Err(ArrayError::InvalidIdentification { field, max: N, text });
    }
    let mut padded = [b' '; N];
    padded[..text.len()].copy_from_slice(text.as_bytes());
    Ok(padded)
}

fn text(field: &[u8]) -> &str {
    std::str::from_utf8(field).expect("ASCII, which was checked").trim_end_matches(' ')
}

#[cfg(test)]
mod tests;

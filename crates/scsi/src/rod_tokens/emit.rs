//! Format of a ROD token (SPC-4 5.17.6.4, SBC-4 4.28.4), and its code, by which ours are known from
//! forged ones.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::{RodTokenNumber, RodTokenSpec};
use crate::commands::{CSCD_IDENTIFICATION, ROD_TYPE_POINT_IN_TIME};
use crate::completion::Completion;
use crate::sense::{self, Sense};

/// A whole token.
pub(crate) const TOKEN_BYTES: usize = 512;

/// What REPORT ALL ROD TOKENS tells of one.
pub(crate) const MANAGEMENT_BYTES: usize = 96;

/// ROD TOKEN LENGTH: what follows it.
const LENGTH: u16 = TOKEN_BYTES as u16 - 8;

/// First byte of the code that only this copy manager can make.
const CODE_AT: usize = TOKEN_BYTES - 32;

/// Makes and knows the code at the end of a token: a keyed hash of all that comes before it.
pub(crate) struct Verifier(Hmac<Sha256>);

impl std::fmt::Debug for Verifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Verifier")
    }
}

impl Verifier {
    pub(super) fn new(key: [u8; 32]) -> Self {
        Self(Hmac::new_from_slice(&key).expect("a key of any length will do"))
    }

    /// A token of so many bytes.
    pub(super) fn emit(
        &self,
        number: RodTokenNumber,
        spec: &RodTokenSpec,
        bytes: u64,
    ) -> Box<[u8; TOKEN_BYTES]> {
        let mut token = Box::new([0; TOKEN_BYTES]);
        token[..4].copy_from_slice(&ROD_TYPE_POINT_IN_TIME.to_be_bytes());
        token[6..8].copy_from_slice(&LENGTH.to_be_bytes());
        token[8..16].copy_from_slice(&number.to_be_bytes());
        // CREATOR LOGICAL UNIT DESCRIPTOR.
        token[16] = CSCD_IDENTIFICATION;
        token[20..24].copy_from_slice(&[1, 3, 0, 16]);
        token[24..40].copy_from_slice(&spec.naa);
        token[44..48].copy_from_slice(&spec.block_bytes.to_be_bytes());
        // NUMBER OF BYTES REPRESENTED.
        token[48..64].copy_from_slice(&u128::from(bytes).to_be_bytes());
        // DEVICE TYPE SPECIFIC DATA: block length, LBPME and LBPRZ.
        token[96..100].copy_from_slice(&spec.block_bytes.to_be_bytes());
        token[102] = 0xc0;
        // TARGET DEVICE DESCRIPTOR.
        token[128..][..spec.target_device.len()].copy_from_slice(&spec.target_device);
        let code = self.0.clone().chain_update(&token[..CODE_AT]).finalize().into_bytes();
        token[CODE_AT..].copy_from_slice(&code);
        token
    }

    /// The number of a token, if this copy manager made it.
    ///
    /// # Errors
    /// 05h/23h with 01h for another type, 0Ah for another length, 05h for another code.
    pub(super) fn verify(&self, token: &[u8; TOKEN_BYTES]) -> Result<RodTokenNumber, Completion> {
        let refused = |code| Completion::from(Sense::from(code));
        if token[..4] != ROD_TYPE_POINT_IN_TIME.to_be_bytes() {
            return Err(refused(sense::INVALID_TOKEN_OPERATION_UNSUPPORTED_TOKEN_TYPE));
        }
        if token[6..8] != LENGTH.to_be_bytes() {
            return Err(refused(sense::INVALID_TOKEN_OPERATION_INVALID_TOKEN_LENGTH));
        }
        let code = self.0.clone().chain_update(&token[..CODE_AT]);
        code.verify_slice(&token[CODE_AT..])
            .map_err(|_| refused(sense::INVALID_TOKEN_OPERATION_TOKEN_CORRUPT))?;
        Ok(u64::from_be_bytes(token[8..16].try_into().expect("8 bytes")))
    }
}

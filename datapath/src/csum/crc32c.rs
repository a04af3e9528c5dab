//! CRC32c, as SCTP uses it (RFC 9260, appendix A).

/// One entry per byte: the CRC's change by that byte.
const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte: u8 = 0;
    loop {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = (crc >> 1) ^ (0x82f6_3b78 & (crc & 1).wrapping_neg());
            bit += 1;
        }
        table[byte as usize] = crc;
        if byte == u8::MAX {
            break table;
        }
        byte += 1;
    }
};

/// The state of a new CRC; its complement after all bytes is the result.
pub(super) const START: u32 = u32::MAX;

/// The state after further bytes.
pub(super) fn add(state: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(state, |state, &byte| step(state, byte))
}

#[inline]
fn step(state: u32, byte: u8) -> u32 {
    let [low, ..] = (state ^ u32::from(byte)).to_le_bytes();
    (state >> 8) ^ TABLE.get(usize::from(low)).copied().unwrap_or(0)
}

/// What to xor the CRC with when bytes changed by xor with `changed` and `after` bytes follow them.
pub(super) fn change(changed: &[u8], after: usize) -> u32 {
    (0..after).fold(add(0, changed), |state, _| step(state, 0))
}

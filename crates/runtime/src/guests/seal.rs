//! How two processes of other nodes authenticate each other as one user's: a seal and a proof over the hello
//! of a connection, made from the secret that daemons tell that user's processes.
//!
//! Each is a message authentication code (MAC): a hash with a key (SipHash-2-4), twice for 128 bits. Who
//! cannot listen on the network learns neither. Who can may forge messages anyway: they carry none.

use tutti_shm::published::far::Secret;

/// Bytes of a seal, and of a proof.
pub(super) const BYTES: usize = 16;

/// Seal that a process which connects shows for this hello, and the proof that it is shown for it.
pub(super) fn of(secret: &Secret, hello: &[u8]) -> ([u8; BYTES], [u8; BYTES]) {
    let half = |purpose: u8| hash(secret, &[hello, &[purpose]].concat()).to_le_bytes();
    let whole = |first: u8| {
        let mut bytes = [0; BYTES];
        bytes[..8].copy_from_slice(&half(first));
        bytes[8..].copy_from_slice(&half(first + 1));
        bytes
    };
    (whole(1), whole(3))
}

/// Whether these bytes are those; how long this takes says nothing.
pub(super) fn is_same(shown: &[u8], expected: &[u8; BYTES]) -> bool {
    shown.len() == BYTES && shown.iter().zip(expected).fold(0, |sum, (one, other)| sum | (one ^ other)) == 0
}

/// A number that whoever knows the key can compute, and nobody else; it does not tell the key.
pub(super) fn number(key: u64, bytes: &[u8]) -> u64 {
    hash(&Secret([key, 0]), bytes)
}

/// SipHash-2-4 (Aumasson and Bernstein, 2012).
fn hash(Secret([k0, k1]): &Secret, bytes: &[u8]) -> u64 {
    let mut v = [
        k0 ^ 0x736f_6d65_7073_6575,
        k1 ^ 0x646f_7261_6e64_6f6d,
        k0 ^ 0x6c79_6765_6e65_7261,
        k1 ^ 0x7465_6462_7974_6573,
    ];
    let (words, rest) = bytes.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    last[7] = bytes.len() as u8;
    for word in words.iter().chain([&last]) {
        let word = u64::from_le_bytes(*word);
        v[3] ^= word;
        (0..2).for_each(|_| round(&mut v));
        v[0] ^= word;
    }
    v[2] ^= 0xff;
    (0..4).for_each(|_| round(&mut v));
    v[0] ^ v[1] ^ v[2] ^ v[3]
}

fn round(v: &mut [u64; 4]) {
    v[0] = v[0].wrapping_add(v[1]);
    v[1] = v[1].rotate_left(13) ^ v[0];
    v[0] = v[0].rotate_left(32);
    v[2] = v[2].wrapping_add(v[3]);
    v[3] = v[3].rotate_left(16) ^ v[2];
    v[0] = v[0].wrapping_add(v[3]);
    v[3] = v[3].rotate_left(21) ^ v[0];
    v[2] = v[2].wrapping_add(v[1]);
    v[1] = v[1].rotate_left(17) ^ v[2];
    v[2] = v[2].rotate_left(32);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values of the paper's reference implementation, for the messages of 0, 1, 2, ... bytes.
    #[test]
    fn guest_seal_is_siphash() {
        let bytes: [u8; 64] = std::array::from_fn(|at| at as u8);
        let key = Secret([0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908]);
        for (length, expected) in
            [(0, 0x726f_db47_dd0e_0e31), (1, 0x74f8_39c5_93dc_67fd), (15, 0xa129_ca61_49be_45e5)]
        {
            assert_eq!(hash(&key, &bytes[..length]), expected, "{length} bytes");
        }
    }

    #[test]
    fn guest_seal_and_proof_are_of_one_secret_and_one_hello() {
        let (secret, hello) = (Secret([1, 2]), [7; 56]);
        let (seal, proof) = of(&secret, &hello);
        assert!(is_same(&seal, &seal) && !is_same(&seal[..15], &seal) && !is_same(&seal, &proof));
        for (secret, hello) in [(Secret([1, 3]), [7; 56]), (secret, [8; 56])] {
            let (other, other_proof) = of(&secret, &hello);
            assert!(!is_same(&other, &seal) && !is_same(&other_proof, &proof));
        }
    }
}

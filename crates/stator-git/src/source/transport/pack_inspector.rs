//! What a pack would unpack to, found out from the stream before libgit2 has it.
//!
//! libgit2 trusts the sizes in a pack: it unpacks an object, and puts a delta together, in memory of that size, two
//! gibibytes at most. A few kilobytes can ask for that. So the stream is read along here: each object's size stands in
//! front of it, a delta begins with the size of what it makes, and what is unpacked on the way is thrown away.

use flate2::{Decompress, FlushDecompress, Status};

/// Bytes that are unpacked at a time.
const CHUNK_BYTES: usize = 16 << 10;
/// Bytes of a delta that hold the two sizes that it begins with.
const DELTA_HEAD_BYTES: usize = 20;
/// The end of a pack: its checksum.
const TRAILER_BYTES: u64 = 20;

/// How much a pack may hold.
#[derive(Clone, Copy, Debug)]
pub(super) struct PackLimits {
    pub(super) max_objects: u64,
    /// Bytes of one object, unpacked.
    pub(super) max_object_bytes: u64,
    /// Bytes of all objects, unpacked.
    pub(super) max_unpacked_bytes: u64,
}

/// Why a pack is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PackFault {
    /// It holds more than it may.
    TooMuch { limit: u64, what: &'static str },
    /// It is none.
    Broken(&'static str),
}

/// Reads along what a host answers to a fetch: lines of git's protocol, and the pack in them or after them.
pub(super) struct PackInspector {
    answer: AnswerState,
    pack: PackReader,
}

/// Where the answer stands.
enum AnswerState {
    /// In the four digits before a line.
    Length(Vec<u8>),
    /// In a line, before its first byte: that of a band, where the host uses bands.
    LineStart { left: usize },
    /// In a line.
    Line { left: usize, is_pack: bool },
    /// The rest is the pack.
    Pack,
}

impl PackInspector {
    pub(super) fn new(limits: PackLimits) -> Self {
        Self { answer: AnswerState::Length(Vec::new()), pack: PackReader::new(limits) }
    }

    /// Takes in the next bytes.
    ///
    /// # Errors
    /// When the pack must not reach libgit2.
    pub(super) fn observe(&mut self, mut bytes: &[u8]) -> Result<(), PackFault> {
        while !bytes.is_empty() {
            match &mut self.answer {
                AnswerState::Pack => return self.pack.read(bytes),
                AnswerState::Length(digits) => {
                    let (more, rest) = bytes.split_at(bytes.len().min(4 - digits.len()));
                    digits.extend_from_slice(more);
                    bytes = rest;
                    if digits.len() < 4 {
                        return Ok(());
                    }
                    if digits == b"PACK" {
                        self.answer = AnswerState::Pack;
                        self.pack.read(b"PACK")?;
                        continue;
                    }
                    let digits = std::str::from_utf8(digits).ok();
                    let length = digits.and_then(|digits| usize::from_str_radix(digits, 16).ok());
                    let length = length.ok_or(PackFault::Broken("a line has no length"))?;
                    self.answer = match length.checked_sub(4) {
                        None | Some(0) => AnswerState::Length(Vec::new()),
                        Some(left) => AnswerState::LineStart { left },
                    };
                }
                AnswerState::LineStart { left } => {
                    let is_pack = bytes.first() == Some(&1);
                    let left = *left - 1;
                    bytes = bytes.get(1..).unwrap_or_default();
                    self.answer = AnswerState::after_line(left, is_pack);
                }
                AnswerState::Line { left, is_pack } => {
                    let (line, rest) = bytes.split_at(bytes.len().min(*left));
                    let (left, is_pack) = (*left - line.len(), *is_pack);
                    if is_pack {
                        self.pack.read(line)?;
                    }
                    bytes = rest;
                    self.answer = AnswerState::after_line(left, is_pack);
                }
            }
        }
        Ok(())
    }
}

impl AnswerState {
    fn after_line(left: usize, is_pack: bool) -> Self {
        if left == 0 { Self::Length(Vec::new()) } else { Self::Line { left, is_pack } }
    }
}

/// Reads a pack along, by git's `gitformat-pack`.
struct PackReader {
    limits: PackLimits,
    state: PackState,
    /// Objects that are still to come.
    objects_left: u64,
    unpacked: u64,
    inflate: Decompress,
}

enum PackState {
    Header(Vec<u8>),
    /// In the bytes that say what an object is and how large.
    ObjectHeader {
        kind: Option<ObjectEncoding>,
        size: u64,
        shift: u32,
    },
    /// In how far back the base of a delta is.
    BaseOffset {
        size: u64,
    },
    /// In the name of the base of a delta.
    BaseName {
        size: u64,
        left: usize,
    },
    /// In what is packed.
    Data(PackEntry),
    Trailer {
        left: u64,
    },
}

/// How an object is in a pack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ObjectEncoding {
    Whole,
    DeltaByOffset,
    DeltaByName,
}

struct PackEntry {
    /// As its header says.
    size: u64,
    unpacked: u64,
    /// The beginning of a delta.
    delta_head: Option<Vec<u8>>,
}

impl PackReader {
    fn new(limits: PackLimits) -> Self {
        let state = PackState::Header(Vec::new());
        Self { limits, state, objects_left: 0, unpacked: 0, inflate: Decompress::new(true) }
    }

    fn read(&mut self, mut bytes: &[u8]) -> Result<(), PackFault> {
        while let Some((&first, rest)) = bytes.split_first() {
            match &mut self.state {
                PackState::Header(header) => {
                    header.push(first);
                    bytes = rest;
                    if let Ok(header) = <[u8; 12]>::try_from(header.as_slice()) {
                        self.begin_pack(header)?;
                    }
                }
                PackState::ObjectHeader { kind, size, shift } => {
                    bytes = rest;
                    let (kind_now, bits) = match *kind {
                        Some(kind) => (kind, u64::from(first & 0x7f)),
                        None => (object_encoding(first)?, u64::from(first & 0x0f)),
                    };
                    let width = if kind.is_some() { 7 } else { 4 };
                    if *shift > 56 {
                        return Err(self.object_too_large());
                    }
                    *size |= bits << *shift;
                    *shift += width;
                    *kind = Some(kind_now);
                    if first & 0x80 == 0 {
                        let size = *size;
                        self.begin_object(kind_now, size)?;
                    }
                }
                PackState::BaseOffset { size } => {
                    bytes = rest;
                    if first & 0x80 == 0 {
                        let size = *size;
                        self.begin_data(size, true);
                    }
                }
                PackState::BaseName { size, left } => {
                    bytes = rest;
                    *left -= 1;
                    if *left == 0 {
                        let size = *size;
                        self.begin_data(size, true);
                    }
                }
                PackState::Data(_) => bytes = self.unpack(bytes)?,
                PackState::Trailer { left: 0 } => return Ok(()),
                PackState::Trailer { left } => {
                    let taken = (bytes.len() as u64).min(*left);
                    *left -= taken;
                    bytes = bytes.get(usize::try_from(taken).unwrap_or(usize::MAX)..).unwrap_or_default();
                }
            }
        }
        Ok(())
    }

    fn begin_pack(&mut self, header: [u8; 12]) -> Result<(), PackFault> {
        let [b'P', b'A', b'C', b'K', _, _, _, _, a, b, c, d] = header else {
            return Err(PackFault::Broken("a pack does not begin as one"));
        };
        self.objects_left = u64::from(u32::from_be_bytes([a, b, c, d]));
        let limit = self.limits.max_objects;
        if self.objects_left > limit {
            return Err(PackFault::TooMuch { limit, what: "objects" });
        }
        self.next_object();
        Ok(())
    }

    fn next_object(&mut self) {
        self.state = match self.objects_left.checked_sub(1) {
            Some(left) => {
                self.objects_left = left;
                PackState::ObjectHeader { kind: None, size: 0, shift: 0 }
            }
            None => PackState::Trailer { left: TRAILER_BYTES },
        };
    }

    fn begin_object(&mut self, kind: ObjectEncoding, size: u64) -> Result<(), PackFault> {
        self.count(size)?;
        match kind {
            ObjectEncoding::Whole => self.begin_data(size, false),
            ObjectEncoding::DeltaByOffset => self.state = PackState::BaseOffset { size },
            ObjectEncoding::DeltaByName => self.state = PackState::BaseName { size, left: 20 },
        }
        Ok(())
    }

    fn begin_data(&mut self, size: u64, is_delta: bool) {
        self.inflate.reset(true);
        self.state = PackState::Data(PackEntry { size, unpacked: 0, delta_head: is_delta.then(Vec::new) });
    }

    /// Something of that size will be in memory.
    fn count(&mut self, size: u64) -> Result<(), PackFault> {
        if size > self.limits.max_object_bytes {
            return Err(self.object_too_large());
        }
        self.unpacked = self.unpacked.saturating_add(size);
        let limit = self.limits.max_unpacked_bytes;
        if self.unpacked > limit { Err(PackFault::TooMuch { limit, what: "bytes, unpacked" }) } else { Ok(()) }
    }

    fn object_too_large(&self) -> PackFault {
        PackFault::TooMuch { limit: self.limits.max_object_bytes, what: "bytes in one object, unpacked" }
    }

    /// Unpacks as much as there is of the current object; gives what is left.
    fn unpack<'a>(&mut self, bytes: &'a [u8]) -> Result<&'a [u8], PackFault> {
        let PackState::Data(object) = &mut self.state else { return Ok(bytes) };
        let mut chunk = [0; CHUNK_BYTES];
        let (in_before, out_before) = (self.inflate.total_in(), self.inflate.total_out());
        let status = self.inflate.decompress(bytes, &mut chunk, FlushDecompress::None);
        let status = status.map_err(|_| PackFault::Broken("an object does not unpack"))?;
        let taken = usize::try_from(self.inflate.total_in() - in_before).unwrap_or(usize::MAX);
        let made = usize::try_from(self.inflate.total_out() - out_before).unwrap_or(usize::MAX);
        object.unpacked = object.unpacked.saturating_add(made as u64);
        if object.unpacked > object.size {
            return Err(PackFault::Broken("an object is larger than it says"));
        }
        if let Some(head) = &mut object.delta_head {
            let free = DELTA_HEAD_BYTES - head.len();
            head.extend(chunk.iter().take(made.min(free)));
        }
        let rest = bytes.get(taken..).unwrap_or_default();
        match status {
            Status::StreamEnd => {
                if object.unpacked != object.size {
                    return Err(PackFault::Broken("an object is smaller than it says"));
                }
                if let Some(head) = object.delta_head.take() {
                    let made = delta_result_size(&head).ok_or(PackFault::Broken("a delta has no size"))?;
                    self.count(made)?;
                }
                self.next_object();
                Ok(rest)
            }
            Status::Ok | Status::BufError if taken == 0 && made == 0 => {
                // With input and space for output there is always a step to make.
                Err(PackFault::Broken("an object does not unpack"))
            }
            Status::Ok | Status::BufError => Ok(rest),
        }
    }
}

fn object_encoding(first: u8) -> Result<ObjectEncoding, PackFault> {
    match (first >> 4) & 7 {
        1..=4 => Ok(ObjectEncoding::Whole),
        6 => Ok(ObjectEncoding::DeltaByOffset),
        7 => Ok(ObjectEncoding::DeltaByName),
        _ => Err(PackFault::Broken("an object is of no kind")),
    }
}

/// The second of the two sizes that a delta begins with.
fn delta_result_size(head: &[u8]) -> Option<u64> {
    let mut bytes = head.iter();
    let mut size = || {
        let mut size = 0_u64;
        for shift in (0..63).step_by(7) {
            let byte = *bytes.next()?;
            size |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(size);
            }
        }
        None
    };
    size()?;
    size()
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::ZlibEncoder;
    use proptest::prelude::*;
    use std::io::Write as _;

    const LIMITS: PackLimits = PackLimits { max_objects: 3, max_object_bytes: 1000, max_unpacked_bytes: 2500 };

    fn packed(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn varint(mut size: u64, first_bits: u32, first: u8) -> Vec<u8> {
        let mut byte = first | u8::try_from(size & ((1 << first_bits) - 1)).unwrap();
        size >>= first_bits;
        let mut all = Vec::new();
        while size > 0 {
            all.push(byte | 0x80);
            byte = u8::try_from(size & 0x7f).unwrap();
            size >>= 7;
        }
        all.push(byte);
        all
    }

    fn object(kind: u8, says: u64, between: &[u8], bytes: &[u8]) -> Vec<u8> {
        [varint(says, 4, kind << 4), between.to_vec(), packed(bytes)].concat()
    }

    fn whole(bytes: &[u8]) -> Vec<u8> {
        object(3, bytes.len() as u64, &[], bytes)
    }

    /// A delta that says that it makes so much of something.
    fn delta(size: u64) -> Vec<u8> {
        let bytes = [varint(5, 7, 0), varint(size, 7, 0), vec![0x90, 5]].concat();
        object(7, bytes.len() as u64, &[7; 20], &bytes)
    }

    fn pack(count: u32, objects: &[Vec<u8>]) -> Vec<u8> {
        [b"PACK\0\0\0\x02".to_vec(), count.to_be_bytes().to_vec(), objects.concat(), vec![9; 20]].concat()
    }

    /// The same pack as a host sends it: as it is, and in a band, in lines of some length.
    fn answers(pack: &[u8], line: usize) -> [Vec<u8>; 2] {
        let packet = |bytes: &[u8]| [format!("{:04x}", bytes.len() + 4).as_bytes(), bytes].concat();
        let bands =
            pack.chunks(line).flat_map(|piece| [packet(b"\x02working"), packet(&[&[1], piece].concat())].concat());
        [
            [packet(b"NAK\n"), pack.to_vec()].concat(),
            [packet(b"shallow x\n"), b"0000".to_vec(), packet(b"NAK\n"), bands.collect(), b"0000".to_vec()].concat(),
        ]
    }

    /// What is said of a pack, however it comes.
    fn judge(pack: &[u8]) -> Result<(), PackFault> {
        let mut said = None;
        for answer in answers(pack, 7).into_iter().chain(answers(pack, 900)) {
            for step in [1, 3, answer.len()] {
                let mut inspector = PackInspector::new(LIMITS);
                let result = answer.chunks(step).try_for_each(|bytes| inspector.observe(bytes));
                assert_eq!(*said.get_or_insert(result), result);
            }
        }
        said.unwrap()
    }

    const fn too_much(limit: u64, what: &'static str) -> Result<(), PackFault> {
        Err(PackFault::TooMuch { limit, what })
    }

    #[test]
    fn sound_packs_pass_however_they_are_cut() {
        assert_eq!(judge(&pack(0, &[])), Ok(()));
        let offset = object(6, 3, &[0x81, 0x01], &[5, 9, 0x90]);
        assert_eq!(judge(&pack(3, &[whole(b"a: 1"), delta(900), offset])), Ok(()));
        assert_eq!(judge(&pack(2, &[whole(&[7; 1000]), whole(&[])])), Ok(()));
    }

    /// Row S7 of the review: libgit2 unpacks two gibibytes where a few kilobytes ask for it.
    #[test]
    fn what_unpacks_to_too_much_is_refused_by_the_limit() {
        let one = too_much(1000, "bytes in one object, unpacked");
        assert_eq!(judge(&pack(1, &[whole(&[0; 1001])])), one);
        assert_eq!(judge(&pack(1, &[object(3, 1 << 40, &[], b"small")])), one);
        assert_eq!(judge(&pack(1, &[vec![0xbf, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]])), one);
        assert_eq!(judge(&pack(1, &[delta(1001)])), one);
        assert_eq!(judge(&pack(1, &[delta(1 << 31)])), one);
        let all = too_much(2500, "bytes, unpacked");
        assert_eq!(judge(&pack(3, &[whole(&[0; 900]), whole(&[0; 900]), whole(&[0; 900])])), all);
        assert_eq!(judge(&pack(3, &[delta(900), delta(900), delta(900)])), all);
        assert_eq!(judge(&pack(4, &[])), too_much(3, "objects"));
    }

    #[test]
    fn what_lies_about_its_size_is_refused() {
        let broken = |reason| Err(PackFault::Broken(reason));
        assert_eq!(judge(&pack(1, &[object(3, 5, &[], &[0; 900])])), broken("an object is larger than it says"));
        assert_eq!(judge(&pack(1, &[object(3, 6, &[], b"small")])), broken("an object is smaller than it says"));
        assert_eq!(judge(&pack(1, &[object(7, 1, &[7; 20], &[0x80])])), broken("a delta has no size"));
        assert_eq!(judge(&pack(1, &[object(5, 1, &[], &[1])])), broken("an object is of no kind"));
        assert_eq!(judge(&pack(1, &[[vec![0x31], vec![0xff; 30]].concat()])), broken("an object does not unpack"));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic_or_stand_still(bytes in prop::collection::vec(any::<u8>(), 0..300), count in 0_u32..3) {
            let mut inspector = PackInspector::new(LIMITS);
            let _ = inspector.observe(&bytes);
            let mut inspector = PackInspector::new(LIMITS);
            let _ = inspector.observe(&[b"PACK\0\0\0\x02".as_slice(), &count.to_be_bytes(), &bytes].concat());
        }
    }
}

//! What libgit2 reads from and writes to, whatever carries it; and git's packet lines in it: a length of four hexadecimal
//! digits, and what they count (`gitprotocol-common(5)`).

use std::io::{Read, Write};

/// Bytes to and from `git-upload-pack` on the host.
pub(in crate::source) trait GitStream: Read + Write + Send + 'static {}
impl<T: Read + Write + Send + 'static> GitStream for T {}

/// What a stream is opened for. Over SSH one stream serves both, over HTTP each is a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::source) enum GitOperation {
    /// The refs.
    ListRefs,
    /// Objects.
    Fetch,
}

/// Why no packet line can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PacketLineError {
    /// The stream ends before the line does.
    Ended,
    /// What stands in place of the length is none.
    Length,
}

/// One line without its length; `None` for a flush, which ends a list.
pub(crate) fn read_packet_line(stream: &mut dyn Read) -> Result<Option<Vec<u8>>, PacketLineError> {
    let mut length = [0; 4];
    stream.read_exact(&mut length).map_err(|_| PacketLineError::Ended)?;
    let length = std::str::from_utf8(&length).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_hexdigit()));
    let length = length.and_then(|text| usize::from_str_radix(text, 16).ok()).ok_or(PacketLineError::Length)?;
    let count = match length {
        0 => return Ok(None),
        1..4 => return Err(PacketLineError::Length),
        _ => length - 4,
    };
    let mut line = vec![0; count];
    stream.read_exact(&mut line).map_err(|_| PacketLineError::Ended)?;
    Ok(Some(line))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn packet_lines_are_read_one_by_one() {
        let mut rest = &b"001f# service=git-receive-pack\n00000009hello0003"[..];
        assert_eq!(read_packet_line(&mut rest), Ok(Some(b"# service=git-receive-pack\n".to_vec())));
        assert_eq!(read_packet_line(&mut rest), Ok(None));
        assert_eq!(read_packet_line(&mut rest), Ok(Some(b"hello".to_vec())));
        assert_eq!(read_packet_line(&mut rest), Err(PacketLineError::Length));
        assert_eq!(read_packet_line(&mut rest), Err(PacketLineError::Ended));
        assert_eq!(read_packet_line(&mut &b"+009hello"[..]), Err(PacketLineError::Length));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_to_an_end(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let mut rest = &bytes[..];
            while read_packet_line(&mut rest).is_ok() {}
        }
    }
}

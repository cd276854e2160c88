//! Frames: the bytes of the two streams between a broker and a node, cut into pieces of bounded
//! size. Decoding is pure, takes any input, and never panics.
//!
//! A frame is a kind (one byte), the id of the call that it belongs to (four), the length of its
//! body (four, both big-endian), and the body: JSON for records, raw bytes for data.

use serde::de::DeserializeOwned;

/// Bytes before the body.
const HEADER_BYTES: usize = 9;

/// Most bytes of one frame, its header included.
pub(crate) const MAX_FRAME_BYTES: usize = 1 << 20;

/// Most bytes of the body of one frame.
pub(crate) const MAX_BODY_BYTES: usize = MAX_FRAME_BYTES - HEADER_BYTES;

/// Most bytes of one body, in however many frames it comes.
pub(crate) const MAX_WHOLE_BYTES: usize = 64 * 1024 * 1024;

/// The id of frames that are about no call.
pub(crate) const CONNECTION: u32 = 0;

/// The kind of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub(crate) enum FrameKind {
    /// Both: the first frame of each side, with its protocol.
    Hello = 1,
    /// Broker: the setup of the node.
    Setup = 2,
    /// Node: it is so.
    Ready = 3,
    /// Node: it cannot be so.
    Refused = 4,
    /// Broker: nothing more will come.
    Bye = 5,
    /// Both: a part of a body that is too long for one frame.
    Part = 8,
    /// Broker: a call of a file tool.
    Tool = 16,
    /// Broker: a command.
    Run = 17,
    /// Broker: a file is wanted.
    Get = 18,
    /// Broker: a file is to be written.
    Put = 19,
    /// Broker: asks for the resources used so far.
    Stats = 20,
    /// Broker: data for a call.
    Input = 32,
    /// Broker: the input has ended.
    InputEnd = 33,
    /// Broker: a signal for a command.
    Signal = 34,
    /// Broker: the caller of this call is gone.
    Cancel = 35,
    /// Both: so many more bytes of data may come.
    Window = 36,
    /// Node: the command runs.
    Started = 48,
    /// Node: output of a command.
    Stdout = 49,
    /// Node: output on the other stream.
    Stderr = 50,
    /// Node: the report of a command in a session about its end.
    Said = 51,
    /// Node: a piece of a file.
    Data = 52,
    /// Node: the result of the call.
    Done = 53,
    /// Node: why it failed.
    Failed = 54,
}

/// All of them.
#[rustfmt::skip]
const KINDS: [FrameKind; 23] = [
    FrameKind::Hello, FrameKind::Setup, FrameKind::Ready, FrameKind::Refused, FrameKind::Bye,
    FrameKind::Part, FrameKind::Tool, FrameKind::Run, FrameKind::Get, FrameKind::Put,
    FrameKind::Stats, FrameKind::Input, FrameKind::InputEnd, FrameKind::Signal, FrameKind::Cancel,
    FrameKind::Window, FrameKind::Started, FrameKind::Stdout, FrameKind::Stderr, FrameKind::Said,
    FrameKind::Data, FrameKind::Done, FrameKind::Failed,
];

impl FrameKind {
    fn of(byte: u8) -> Option<FrameKind> {
        KINDS.into_iter().find(|kind| *kind as u8 == byte)
    }

    /// Whether it is about the connection and not about a call; a part may be either.
    fn is_of_connection(self) -> Option<bool> {
        match self {
            FrameKind::Hello
            | FrameKind::Setup
            | FrameKind::Ready
            | FrameKind::Refused
            | FrameKind::Bye => Some(true),
            FrameKind::Part => None,
            _ => Some(false),
        }
    }
}

/// One frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NodeFrame {
    pub(crate) kind: FrameKind,
    pub(crate) id: u32,
    pub(crate) body: Vec<u8>,
}

/// The reason why bytes are not frames.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FrameError {
    #[error("a frame of kind {0}, which there is not")]
    Kind(u8),
    #[error("a frame of {0} bytes, at most {MAX_FRAME_BYTES}")]
    Long(u64),
    #[error("a frame of kind {0:?} for call {1}")]
    Id(FrameKind, u32),
    #[error("an end in the middle of a frame")]
    Cut,
}

impl NodeFrame {
    pub(crate) fn new(kind: FrameKind, id: u32, body: impl Into<Vec<u8>>) -> NodeFrame {
        NodeFrame {
            kind,
            id,
            body: body.into(),
        }
    }

    /// Parses the body; returns the mistake in words.
    pub(crate) fn parse<T: DeserializeOwned>(&self) -> Result<T, String> {
        serde_json::from_slice(&self.body).map_err(|error| format!("{:?}: {error}", self.kind))
    }

    /// As bytes. A body that is too long is a mistake of ours: see [`frames`].
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        debug_assert!(self.body.len() <= MAX_BODY_BYTES);
        out.push(self.kind as u8);
        out.extend_from_slice(&self.id.to_be_bytes());
        let length = u32::try_from(self.body.len()).unwrap_or(u32::MAX);
        out.extend_from_slice(&length.to_be_bytes());
        out.extend_from_slice(&self.body);
    }
}

/// A body of any length as frames: parts, and last the frame with its kind.
pub(crate) fn frames(kind: FrameKind, id: u32, mut body: Vec<u8>) -> Vec<NodeFrame> {
    let mut frames = Vec::with_capacity(body.len() / MAX_BODY_BYTES + 1);
    while body.len() > MAX_BODY_BYTES {
        let rest = body.split_off(MAX_BODY_BYTES);
        frames.push(NodeFrame::new(FrameKind::Part, id, body));
        body = rest;
    }
    frames.push(NodeFrame::new(kind, id, body));
    frames
}

/// The parts of a body that came so far.
#[derive(Debug, Default)]
pub(crate) struct BodyParts(Vec<u8>);

impl BodyParts {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a part; `false` if the body is too long.
    #[must_use]
    pub(crate) fn add(&mut self, part: &[u8]) -> bool {
        let fits = self.0.len() + part.len() <= MAX_WHOLE_BYTES;
        if fits {
            self.0.extend_from_slice(part);
        }
        fits
    }

    /// Returns the whole body, which ends with `last`.
    pub(crate) fn complete(&mut self, last: Vec<u8>) -> Vec<u8> {
        let mut body = std::mem::take(&mut self.0);
        match body.is_empty() {
            true => last,
            false => {
                body.extend_from_slice(&last);
                body
            }
        }
    }
}

/// Makes frames of bytes as they come.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    bytes: Vec<u8>,
    /// Up to here they were taken.
    at: usize,
}

impl Decoder {
    /// Takes the next bytes.
    pub(crate) fn push(&mut self, more: &[u8]) {
        if self.at > 0 {
            self.bytes.drain(..self.at);
            self.at = 0;
        }
        self.bytes.extend_from_slice(more);
    }

    /// The bytes that do not form a frame yet; for showing their form.
    pub(crate) fn rest(&self) -> &[u8] {
        &self.bytes[self.at..]
    }

    /// The next frame; none while it is not whole.
    ///
    /// # Errors
    ///
    /// The bytes are not a frame. The next one cannot be found.
    pub(crate) fn next(&mut self) -> Result<Option<NodeFrame>, FrameError> {
        let rest = self.rest();
        let Some(&kind) = rest.first() else {
            return Ok(None);
        };
        // As soon as it is known: another program mostly betrays itself by its first byte.
        let kind = FrameKind::of(kind).ok_or(FrameError::Kind(kind))?;
        let Some((header, behind)) = rest.split_at_checked(HEADER_BYTES) else {
            return Ok(None);
        };
        let number = |at: usize| {
            let bytes = [header[at], header[at + 1], header[at + 2], header[at + 3]];
            u32::from_be_bytes(bytes)
        };
        let (id, length) = (number(1), number(5));
        if let Some(of_connection) = kind.is_of_connection()
            && of_connection != (id == CONNECTION)
        {
            return Err(FrameError::Id(kind, id));
        }
        let long = FrameError::Long(u64::from(length) + HEADER_BYTES as u64);
        let length = usize::try_from(length).map_err(|_| long.clone())?;
        if length > MAX_BODY_BYTES {
            return Err(long);
        }
        let Some(body) = behind.get(..length) else {
            return Ok(None);
        };
        let frame = NodeFrame::new(kind, id, body);
        self.at += HEADER_BYTES + length;
        Ok(Some(frame))
    }

    /// Nothing more will come.
    ///
    /// # Errors
    ///
    /// Something was in the middle of coming.
    pub(crate) fn end(&self) -> Result<(), FrameError> {
        match self.rest() {
            [] => Ok(()),
            _ => Err(FrameError::Cut),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decode(bytes: &[u8], piece: usize) -> Result<Vec<NodeFrame>, FrameError> {
        let (mut decoder, mut found) = (Decoder::default(), Vec::new());
        for piece in bytes.chunks(piece) {
            decoder.push(piece);
            while let Some(frame) = decoder.next()? {
                found.push(frame);
            }
        }
        decoder.end().map(|()| found)
    }

    fn kind() -> impl Strategy<Value = FrameKind> {
        proptest::sample::select(KINDS.to_vec())
    }

    #[test]
    fn every_kind_has_a_number_of_its_own() {
        let all: std::collections::HashSet<u8> = KINDS.iter().map(|kind| *kind as u8).collect();
        assert_eq!(all.len(), KINDS.len());
        for byte in 0..=u8::MAX {
            assert_eq!(FrameKind::of(byte).is_some(), all.contains(&byte), "{byte}");
        }
    }

    #[test]
    fn what_is_no_frame_is_told_at_once() {
        for (bytes, error) in [
            (&b"exec format error"[..], FrameError::Kind(b'e')),
            (&[0], FrameError::Kind(0)),
            (
                &[16, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff],
                FrameError::Long(0x1_0000_0008),
            ),
            (
                &[16, 0, 0, 0, 1, 0, 0x10, 0, 0],
                FrameError::Long(0x10_0009),
            ),
            (
                &[16, 0, 0, 0, 0, 0, 0, 0, 0],
                FrameError::Id(FrameKind::Tool, 0),
            ),
            (
                &[1, 0, 0, 0, 7, 0, 0, 0, 0],
                FrameError::Id(FrameKind::Hello, 7),
            ),
            (&[16, 0, 0, 0, 1, 0, 0, 0, 2, b'{'], FrameError::Cut),
            (&[16, 0, 0], FrameError::Cut),
        ] {
            assert_eq!(decode(bytes, 3), Err(error), "{bytes:?}");
        }
        let long = vec![7; MAX_BODY_BYTES];
        let mut bytes = Vec::new();
        NodeFrame::new(FrameKind::Data, 1, long.clone()).write(&mut bytes);
        assert_eq!(bytes.len(), MAX_FRAME_BYTES);
        assert_eq!(decode(&bytes, 1 << 16).unwrap()[0].body, long);
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(
            frames in proptest::collection::vec((kind(), 1_u32.., any::<Vec<u8>>()), 0..8),
            piece in 1_usize..50,
        ) {
            let frames: Vec<NodeFrame> = frames
                .into_iter()
                .map(|(kind, id, body)| {
                    let of_connection = kind.is_of_connection() == Some(true);
                    NodeFrame::new(kind, if of_connection { CONNECTION } else { id }, body)
                })
                .collect();
            let mut bytes = Vec::new();
            frames.iter().for_each(|frame| frame.write(&mut bytes));
            prop_assert_eq!(decode(&bytes, piece), Ok(frames));
            if !bytes.is_empty() {
                // Cut anywhere it is no longer whole, unless it is cut between two frames.
                bytes.pop();
                let cut = decode(&bytes, piece);
                prop_assert!(cut == Err(FrameError::Cut) || cut.is_ok());
            }
        }

        #[test]
        fn nothing_that_comes_panics(
            bytes in proptest::collection::vec(prop_oneof![0_u8..60, any::<u8>()], 0..200),
            piece in 1_usize..20,
        ) {
            let whole = decode(&bytes, bytes.len().max(1));
            prop_assert_eq!(decode(&bytes, piece), whole);
        }

        #[test]
        fn a_long_body_comes_in_parts(length in 0_usize..3 * MAX_BODY_BYTES) {
            let frames = frames(FrameKind::Done, 3, vec![b'x'; length]);
            let (last, parts) = frames.split_last().unwrap();
            prop_assert_eq!(last.kind, FrameKind::Done);
            prop_assert!(parts.iter().all(|part| part.kind == FrameKind::Part));
            prop_assert!(frames.iter().all(|one| one.body.len() <= MAX_BODY_BYTES));
            prop_assert_eq!(frames.iter().map(|one| one.body.len()).sum::<usize>(), length);
        }
    }
}

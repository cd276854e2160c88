//! A stream for hyper: bytes that were read before come first, and bytes are counted.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::super::record::Counters;
use super::client_heads::ClientHeads;

/// A connection with bytes that were read before.
#[derive(Debug)]
pub(in super::super) struct BufferedStream<S> {
    stream: S,
    buffered: Vec<u8>,
    /// The next of `buffered`.
    next: usize,
    /// Figures of a connection to a host. `None` for a client.
    counters: Option<Arc<Counters>>,
    /// The heads of a client's requests. `None` for a connection to a host.
    heads: Option<Arc<ClientHeads>>,
}

impl<S> BufferedStream<S> {
    pub(in super::super) fn new(stream: S, buffered: Vec<u8>) -> BufferedStream<S> {
        BufferedStream {
            stream,
            buffered,
            next: 0,
            counters: None,
            heads: None,
        }
    }

    /// Notes the bytes that are read, as heads of a client's requests.
    pub(super) fn with_heads(mut self, heads: Arc<ClientHeads>) -> BufferedStream<S> {
        self.heads = Some(heads);
        self
    }

    /// Counts written bytes as sent and read bytes as received.
    pub(super) fn counted(mut self, counters: Arc<Counters>) -> BufferedStream<S> {
        self.counters = Some(counters);
        self
    }

    fn count_received(&self, bytes: usize) {
        if let Some(counters) = &self.counters {
            counters.count_received(bytes);
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for BufferedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        if self.next < self.buffered.len() {
            let end = self.buffered.len().min(self.next + buffer.remaining());
            buffer.put_slice(&self.buffered[self.next..end]);
            self.next = end;
            if end == self.buffered.len() {
                (self.buffered, self.next) = (Vec::new(), 0);
            }
        } else {
            ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        }
        self.count_received(buffer.filled().len() - before);
        if let Some(heads) = &self.heads {
            heads.add(&buffer.filled()[before..]);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for BufferedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write(context, bytes))?;
        if let Some(counters) = &self.counters {
            counters.count_sent(written);
        }
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
